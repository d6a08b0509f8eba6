"""What editors put into files that is no text."""

import pytest

from keras_transformer.errors import InputError
from keras_transformer.train.data.corpus import open_corpus


def test_utf16_is_told(tmp_path):
    (tmp_path / "a.tsv").write_bytes("a\tb\n".encode("utf-16"))
    corpus = open_corpus([str(tmp_path / "a.tsv")])
    with pytest.raises(InputError, match="iconv -f utf-16"):
        corpus.check("train")


@pytest.mark.parametrize("shard", [(0, 1), (1, 2)])
def test_a_byte_order_mark_is_not_text(tmp_path, shard):
    """Some editors put it first; only there it is one."""
    lines = ["a", "b", "\ufeffc", "d"]
    for name in ("a.en", "a.de", "a.tsv"):
        row = "{0}\t{0}" if name.endswith("tsv") else "{0}"
        text = "".join(row.format(line) + "\n" for line in lines)
        (tmp_path / name).write_text(text, "utf-8-sig")
    for names in (["a.en", "a.de"], ["a.tsv"]):
        corpus = open_corpus([str(tmp_path / name) for name in names])
        assert list(corpus.texts("train"))[::2] == lines
        pairs = corpus.pairs("train", shard).as_numpy_iterator()
        index, count = shard
        assert [s.decode() for s, _ in pairs] == lines[index::count]
