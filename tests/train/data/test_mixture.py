"""Several corpora as one: entries, tags, languages, and what is refused."""

import pytest
from corpora import assert_contains, write_sides
from generated_treebank import write_treebank

from keras_transformer.support.errors import InputError
from keras_transformer.train.data.corpus import open_corpora, open_corpus
from keras_transformer.train.data.mixture import Entry

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
    assert_contains(corpus, "train", PAIRS + tagged)
    assert_contains(corpus, "test", PAIRS[:1] + tagged)
    assert corpus.splits == ("train", "test")
    assert (corpus.source, corpus.target) == ("en", "de")
    assert corpus.name == f"{folders / 'a'} + {folders / 'b'}"
    parts = [(str(x), own) for x, own in corpus.pairs_of_parts("test")]
    assert parts == [
        (str(folders / "a"), PAIRS[:1]),
        (f"{folders / 'b'} <bt>", tagged),
    ]


def test_a_single_corpus_is_its_only_part(folders):
    corpus = open_corpus(str(folders / "a"), "en", "de")
    ((entry, pairs),) = corpus.pairs_of_parts("train")
    assert (str(entry), pairs) == (corpus.name, PAIRS)
    assert not corpus.parts


def test_languages_of_entries(folders):
    several = entries(folders, tag=">>de<<")
    several[0]["tag"] = ">>de<< <bt>"
    french = {"data": str(folders / "c"), "target": "fr", "tag": ">>fr<<"}
    corpus = open_corpora([*several, french], source="en")
    assert (corpus.source, corpus.target) == ("en", None)
    assert [entry.source for entry, _ in corpus.parts] == ["en"] * 3
    assert list(corpus.texts("train"))[:2] == [
        ">>de<< <bt> A cat.",
        PAIRS[0][1],
    ]
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
    with pytest.raises(InputError, match="to fr$") as error:
        open_corpora([german | tags[0], french | tags[1]], "en")
    assert "a tag each that begins with it, such as >>fra<<" in str(error.value)
    # Of the same language as far as anybody knows.
    other = {**german, "data": str(folders / "b")}
    two = {**german, "tag": ">>de<<"}, {**other, "tag": ">>de_AT<<"}
    open_corpora(two, "en")
    with pytest.raises(InputError, match="several target languages"):
        open_corpora([*two, german], "en")


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf")])
def test_invalid_weights(weight):
    with pytest.raises(InputError, match="weight must be a positive"):
        Entry(data=["a"], weight=weight)


@pytest.mark.parametrize("tag", ["bt", "<bt> x", ">>fr<", "<b>t"])
def test_invalid_tags(tag):
    with pytest.raises(InputError, match="in angle brackets, as <bt>"):
        Entry(data=["a"], tag=tag)


@pytest.mark.parametrize("tag", ["<bt> >>de<<", ">>fr<< >>de<<"])
def test_a_language_is_the_first_tag(tag):
    assert Entry(data="a", tag=">>de<< <bt>").language == ">>de<<"
    assert Entry(data="a", tag="<bt>").language is None
    with pytest.raises(InputError, match="must be the first tag"):
        Entry(data="a", tag=tag)


def test_data_of_an_entry():
    for data in ("news", ["news"], ("news",)):
        entry = Entry(data=data)
        assert (entry.data, str(entry)) == (["news"], "news")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "data"),
        ({"data": 5}, "data=5"),
        ({"data": ["a", 5]}, r"data=\['a', 5\]"),
        ({"data": "a", "tag": 5}, "tag=5"),
        ({"data": "a", "source": ["en"]}, r"source=\['en'\]"),
        ({"data": "a", "target": 5}, "target=5"),
        ({"data": "a", "weight": "1"}, "weight='1'"),
        ({"data": "a", "tags": "<bt>"}, "'tags'"),
        ({5: "a"}, "{5: 'a'}"),
        ("a", "'a'"),
        (None, "None"),
    ],
)
def test_invalid_entries(folders, values, message):
    first = "must have data, and valid values of data, weight, tag, source, t"
    with pytest.raises(InputError, match=f"{first}.*{message}"):
        open_corpora([*entries(folders), values])


def test_corpora_that_do_not_fit(folders, tmp_path):
    for nothing in ([], None, {"data": "a"}, "a"):
        with pytest.raises(InputError, match="need a list of entries. Rec"):
            open_corpora(nothing)
    (tmp_path / "trees").mkdir()
    write_treebank(tmp_path / "trees", train=3)
    with pytest.raises(InputError, match="trees, which is prepared alr"):
        open_corpora([{"data": str(tmp_path / "trees")}])
