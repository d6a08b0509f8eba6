import pytest
from corpora import read, write_lines, write_sides

from keras_transformer.support.errors import InputError
from keras_transformer.train.data.corpus import open_corpus


@pytest.mark.parametrize(
    "source, target, languages",
    [
        (None, None, ("en", "de")),
        ("en", "de", ("en", "de")),
        ("de", None, ("de", "en")),
        (None, "en", ("de", "en")),
    ],
)
def test_embedded(source, target, languages):
    corpus = open_corpus("embedded", source, target)
    assert corpus.name == "embedded"
    assert corpus.splits == ("train", "valid", "test")
    ((part, pairs),) = corpus.pairs_of_parts("test")
    assert (str(part), pairs) == ("embedded", read(corpus, "test"))
    assert (corpus.source, corpus.target) == languages
    text = {"en": "Where does she often drive?", "de": "Wohin fährt sie oft?"}
    first = tuple(text[language] for language in languages)
    assert next(iter(corpus.pairs("test"))) == first


@pytest.mark.parametrize("source, target", [("fr", None), ("en", "fr")])
def test_embedded_has_two_languages(source, target):
    with pytest.raises(InputError, match=r"train\.fr"):
        open_corpus(["embedded"], source, target)


# === Wrong names ===


@pytest.mark.parametrize("data", [[], ["a", "b", "c"], [""], ""])
def test_the_forms_are_listed(data):
    with pytest.raises(InputError, match=r"(?s)embedded.*FOLDER.*tfds:"):
        open_corpus(data)


def test_a_name_that_does_not_exist(tmp_path):
    with pytest.raises(InputError, match="nowhere is not a file"):
        open_corpus(["nowhere"], "en", "de")
    en, de = write_sides(tmp_path)
    with pytest.raises(InputError, match=r"train\.fr is not a file"):
        open_corpus([en, str(tmp_path / "train.fr")])
    with pytest.raises(InputError, match=f"{tmp_path} is not a file"):
        open_corpus([str(tmp_path), de])


def test_a_single_file_without_the_suffix_tsv(tmp_path):
    en, _ = write_sides(tmp_path)
    with pytest.raises(InputError, match=r"\.tsv file.*train\.en"):
        open_corpus([en])


def test_a_split_that_does_not_exist(tmp_path):
    write_sides(tmp_path, "train")
    write_sides(tmp_path, "test")
    corpus = open_corpus([str(tmp_path)], "en", "de")
    with pytest.raises(InputError, match="split='valid'"):
        corpus.pairs("valid")


def test_an_empty_corpus(tmp_path):
    files = write_sides(tmp_path, pairs=[("", "")], end="")
    with pytest.raises(InputError, match=r"train\.en and .*train\.de"):
        read(open_corpus(files))
    with pytest.raises(InputError, match=r"a\.tsv"):
        read(open_corpus([write_lines(tmp_path / "a.tsv", [])]))
