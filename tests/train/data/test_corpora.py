"""Several corpora as one: entries, languages, and invalid ones."""

import pytest
from corpora import read, write_sides
from generated_treebank import write_treebank

from keras_transformer.support.errors import InputError
from keras_transformer.train.data.corpus import open_corpora, open_corpus

PAIRS = [("A cat.", "Eine Katze."), ("", "leer")]
OTHERS = [("  A dog.", "Ein Hund.")]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Three folders of texts; the first two have a split test too."""
    root = tmp_path_factory.mktemp("corpora")
    for name in "abc":
        (root / name).mkdir()
        write_sides(root / name, "train", PAIRS if name == "a" else OTHERS)
    write_sides(root / "a", "test", PAIRS[:1])
    write_sides(root / "b", "test", OTHERS)
    (root / "c" / "train.de").rename(root / "c" / "train.fr")
    return root


def entries(folders, **of_b):
    first = {"data": str(folders / "a"), "source": "en", "target": "de"}
    return [first, {**first, "data": [str(folders / "b")], **of_b}]


def test_splits_have_all_pairs_with_their_tags(folders):
    corpus = open_corpora(entries(folders, tag="<bt>", weight=2))
    tagged = [("<bt>   A dog.", "Ein Hund.")]
    assert read(corpus, "train") == PAIRS + tagged
    assert read(corpus, "test") == PAIRS[:1] + tagged
    assert corpus.splits == ("train", "test")
    assert (corpus.source, corpus.target) == ("en", "de")
    names = [str(folders / "a"), f"{folders / 'b'} <bt>"]
    assert corpus.name == " + ".join(names)
    parts = [(str(x), own) for x, own in corpus.pairs_of_parts("test")]
    assert parts == list(zip(names, [PAIRS[:1], tagged], strict=True))
    assert [part.weight for part in corpus.parts] == [1, 2]


def test_a_part_may_lack_a_split(folders):
    french = {"data": str(folders / "c"), "target": "fr", "tag": ">>fr<<"}
    german = entries(folders)[0] | {"tag": ">>de<<"}
    corpus = open_corpora([french, german], source="en")
    ((part, pairs),) = corpus.pairs_of_parts("test")
    assert part is corpus.parts[1]
    assert (
        pairs == list(corpus.pairs("test")) == [(">>de<< A cat.", PAIRS[0][1])]
    )


def test_a_corpus_is_opened_again_with_its_request(folders, tmp_path):
    table = tmp_path / "a.tsv"
    table.write_text("1\tone\teins\n")
    given = [
        *entries(folders, tag="<bt>", weight=0.5),
        {"data": str(table), "columns": (2, 3)},
    ]
    corpus = open_corpora(given, "en", "de")
    common = {"source": "en", "target": "de"}
    assert corpus.arguments() == {
        "corpora": [
            {"data": [str(folders / "a")], **common},
            {
                "data": [str(folders / "b")],
                **common,
                "tag": "<bt>",
                "weight": 0.5,
            },
            {"data": [str(table)], **common, "columns": [2, 3]},
        ]
    }
    again = open_corpora(corpus.arguments()["corpora"])
    assert again.arguments() == corpus.arguments()
    assert list(again.pairs("train")) == list(corpus.pairs("train"))
    single = open_corpus(str(table), columns=(2, 3))
    assert single.arguments() == {"data": [str(table)], "columns": [2, 3]}
    demo = {"data": ["embedded"], **common}
    assert open_corpus("embedded").arguments() == demo


def test_languages_of_entries(folders):
    several = entries(folders, tag=">>de<<")
    several[0]["tag"] = ">>de<< <bt>"
    french = {"data": str(folders / "c"), "target": "fr", "tag": ">>fr<<"}
    corpus = open_corpora([*several, french], source="en")
    assert (corpus.source, corpus.target) == ("en", None)
    assert [part.source for part in corpus.parts] == ["en"] * 3
    # The flags' languages are those of entries without their own.
    del several[0]["source"], several[0]["target"]
    assert open_corpora(several, "en", "de").target == "de"
    # One language needs no tag elsewhere.
    plain = entries(folders)
    del several[0]["tag"]
    open_corpora([*several, *plain], "en", "de")


@pytest.mark.parametrize("tags", [("", ""), (">>de<<", ""), ("", ">>fr<<")])
def test_several_target_languages_need_tags(folders, tags):
    tags = [{"tag": tag} if tag else {} for tag in tags]
    german, french = (
        {"data": str(folders / name), "target": target}
        for name, target in (("a", "de"), ("c", "fr"))
    )
    open_corpora(
        [{**german, "tag": ">>de<<"}, {**french, "tag": ">>fr<< <bt>"}], "en"
    )
    with pytest.raises(InputError, match="to fr$"):
        open_corpora([german | tags[0], french | tags[1]], "en")
    # Of the same language as far as anybody knows.
    other = {**german, "data": str(folders / "b")}
    two = {**german, "tag": ">>de<<"}, {**other, "tag": ">>de_AT<<"}
    open_corpora(two, "en")
    with pytest.raises(InputError, match="to de$"):
        open_corpora([*two, german], "en")


@pytest.mark.parametrize("values", [{}, {"data": "a", "tags": "<bt>"}])
def test_invalid_entries(folders, values):
    with pytest.raises(TypeError, match="data|tags"):
        open_corpora([*entries(folders), values])


def test_only_texts_are_mixed(tmp_path):
    (tmp_path / "trees").mkdir()
    write_treebank(tmp_path / "trees", train=3)
    with pytest.raises(InputError, match="trees, which"):
        open_corpora([{"data": str(tmp_path / "trees")}])
