import pytest

from keras_transformer.train.data import filters
from keras_transformer.train.data.filters import PairFilters, TextPair
from keras_transformer.train.data.reading import Part


def reasons(pairs, **values):
    part = Part(data=["a"], splits={"train": pairs})
    own = PairFilters(**values).text_filter()
    return [pair.dropped_for for pair in part.pairs("train", own)]


def test_each_filter_of_texts_is_off_by_default():
    pairs = [("a", "a"), ("12", "!"), ("", ""), ("12", "!")]
    assert reasons(pairs) == [""] * 4
    identical = ["identical", "", "identical", ""]
    assert reasons(pairs, drop_identical=True) == identical
    assert reasons(pairs, min_letters=0.5) == ["", "letters", "", "letters"]
    assert reasons(pairs, deduplicate=True)[2:] == ["", "duplicate"]


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("ab 1\u00a0 ", 2 / 3),
        ("नमस्ते", 1),  # vowels of this script are marks
        ("猫だ!?", 1 / 2),
        ("12 %", 0),
        (" \u3000", 1),  # dropped as empty
    ],
)
def test_the_share_of_letters(text, share):
    assert filters.share_of_letters(text) == share


def test_exactly_so_many_letters_are_enough():
    pairs = [("a1", "b"), ("a", "b2"), ("a", "b34")]
    assert reasons(pairs, min_letters=0.5) == ["", "", "letters"]


def test_all_but_the_first_of_equal_pairs_are_duplicates():
    """What another reason rules out is not a first one."""
    pairs = [("a", "1"), ("a", "b"), ("a b", ""), ("a", "b"), ("a", " b")]
    pairs += [("a", "1"), ("a b", "")]
    found = reasons(pairs, deduplicate=True, min_letters=0.5)
    assert found == ["letters", "", "", "duplicate", "", "letters", "duplicate"]


def test_the_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "dropped.tsv"
    with filters.write_dropped(path) as write:
        write(TextPair("ä\tb", "c\r\nd", "long"))
        write(TextPair("", "e", "empty"))
        assert not path.exists()
    assert path.read_bytes().decode() == "long\tä b\tc  d\nempty\t\te\n"
