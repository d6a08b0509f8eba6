"""Several corpora as one: entries, tags, languages, and what is refused."""

import pytest
from corpora import assert_contains, write_lines, write_sides
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
    open_corpora([*plain, {**french, "source": "en"}])
    with pytest.raises(InputError, match="each needs a tag with its own"):
        open_corpora([*several, *plain, french], "en", "de")


def test_digests_know_texts_tags_and_weights(folders):
    def digest(**of_b):
        return open_corpora(entries(folders, **of_b)).digest("train")

    changes = [{}, {"tag": "<bt>"}, {"weight": 2}, {"tag": "<ft>"}]
    changes.append({"data": str(folders / "a")})
    assert len({digest(**change) for change in changes}) == len(changes)
    assert digest() == digest(weight=1.0)


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf")])
def test_invalid_weights(weight):
    with pytest.raises(InputError, match="weight must be a positive"):
        Entry(data=["a"], weight=weight)


@pytest.mark.parametrize("tag", ["bt", "<bt> x", ">>fr<", "<b>t"])
def test_invalid_tags(tag):
    with pytest.raises(InputError, match="in angle brackets, as <bt>"):
        Entry(data=["a"], tag=tag)


def test_corpora_that_do_not_fit(folders, tmp_path):
    with pytest.raises(InputError, match="an entry each"):
        open_corpora([])
    (tmp_path / "trees").mkdir()
    write_treebank(tmp_path / "trees", train=3)
    with pytest.raises(InputError, match="trees, which is prepared alr"):
        open_corpora([{"data": str(tmp_path / "trees")}])


def test_a_damaged_text_is_found_early(folders, tmp_path):
    file = tmp_path / "texts.tsv"
    write_lines(file, ["no tab"])
    corpus = open_corpora([*entries(folders), {"data": str(file)}])
    with pytest.raises(InputError, match="without a tab"):
        corpus.check_early("train")
