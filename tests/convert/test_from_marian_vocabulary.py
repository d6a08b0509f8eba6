import pytest
from marian_npz import pieces_model, write_vocabulary

from keras_transformer.convert.from_marian import _read_pieces, _read_table
from keras_transformer.support.errors import InputError


def table(tmp_path, text):
    path = tmp_path / "vocab.yml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return _read_table(path)


@pytest.mark.parametrize(
    ("key", "piece"),
    [
        ("▁the", "▁the"),
        # Of these YAML readers make truth values, numbers and nothing.
        ("no", "no"),
        ("1.5", "1.5"),
        ("=", "="),
        ("<<", "<<"),
        ("a:b", "a:b"),
        ('":"', ":"),
        ('"\\""', '"'),
        ('"\\\\"', "\\"),
        ('"\\x85"', "\x85"),
        ('"a\\x85b\\xa0"', "a\x85b\xa0"),
        ('"\\u2028"', "\u2028"),
        ('"\\U0001F600"', "😀"),
        ('"\\t"', "\t"),
        ("''''", "'"),
        ("'it''s'", "it's"),
        ("'\\x85'", "\\x85"),
        ("x\u2028y", "x\u2028y"),
        ("x\x85y", "x\x85y"),
        ('"x\x85y\u2029"', "x\x85y\u2029"),
        ("x\x7fy", "x\x7fy"),
    ],
)
@pytest.mark.parametrize("form", ["{}: 1", "? {}\n: 1", "{}:  1\r"])
def test_a_piece(tmp_path, key, piece, form):
    text = f"---\n</s>: 0\n{form.format(key)}\n\n"
    assert table(tmp_path, text) == {"</s>": 0, piece: 1}


def test_pieces_that_marian_writes(tmp_path):
    pieces = ["</s>", "<unk>", *"'\":=~-?!#|>%@`&*[]{},.\\ab", "null", "▁"]
    words = {piece: i for i, piece in enumerate(pieces)}
    write_vocabulary(tmp_path / "vocab.yml", words)
    assert _read_table(tmp_path / "vocab.yml") == words


@pytest.mark.parametrize(
    ("text", "received"),
    [
        ("a: 0\nb\n", "could not find expected ':'"),
        ("a: 0\n: 1\n", "did not find expected key"),
        ("- a\n", "list"),
        ('"a: 0\n', "end of stream"),
    ],
)
def test_other_lines(tmp_path, text, received):
    with pytest.raises(InputError) as caught:
        table(tmp_path, text)
    assert str(tmp_path / "vocab.yml") in str(caught.value)
    assert received in str(caught.value).partition("Received: ")[2]


def test_ids_of_a_sentencepiece_model(tmp_path):
    model = pieces_model("en", 300, eos_id=0, unk_id=1, bos_id=-1, pad_id=-1)
    found, end, unknown = _read_pieces(model, tmp_path / "source.spm")
    assert (end, unknown) == ("</s>", "<unk>")
    assert (found[end], found[unknown]) == (0, 1)
    assert sorted(found.values()) == [*range(len(found))]


def test_other_sentencepiece_models(tmp_path):
    with pytest.raises(InputError, match="source.spm cannot be used"):
        _read_pieces(b"nothing", tmp_path / "source.spm")
