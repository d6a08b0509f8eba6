import pytest

from keras_transformer.support.errors import InputError
from keras_transformer.tasks import TranslationTask
from keras_transformer.train.data.filters import TextPair
from keras_transformer.train.data.reading import Corpus, Part


def make_part(pairs=(), **values):
    return Part(data=["a", "b"], splits={"train": pairs}, **values)


def test_pairs_have_tags_which_the_filter_does_not_see():
    part = make_part([("x", "x"), ("  y", "")], tag=">>de<<  <bt>")
    seen = []

    def drop_equal(source, target):
        seen.append((source, target))
        return "equal" if source == target else ""

    assert list(part.pairs("train")) == [
        TextPair(">>de<< <bt> x", "x"),
        TextPair(">>de<< <bt>   y", ""),
    ]
    pairs = part.pairs("train", drop_equal)
    assert [pair.dropped_for for pair in pairs] == ["equal", ""]
    assert seen == [("x", "x"), ("  y", "")]
    assert str(part) == "a b >>de<< <bt>"


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf"), "1"])
def test_invalid_weights(weight):
    with pytest.raises(InputError, match=f"weight must .*{weight!r}"):
        make_part(weight=weight)


@pytest.mark.parametrize("tag", ["bt", "<bt> x", ">>fr<", "<b>t"])
def test_invalid_tags(tag):
    with pytest.raises(InputError, match=tag.split()[-1]):
        make_part(tag=tag)


def test_the_language_of_a_part():
    assert make_part(tag=">>de<< <bt>").language == ">>de<<"
    assert make_part(tag="<bt>").language is None


def test_the_language_that_parts_share():
    parts = [make_part(source="en", target=x) for x in ("de", "de", None)]
    corpus = Corpus("all", TranslationTask(), parts)
    assert (corpus.source, corpus.target) == ("en", None)
    assert Corpus("two", TranslationTask(), parts[:2]).target == "de"
