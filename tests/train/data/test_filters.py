"""Which pairs are dropped, and the file of them."""

import pytest
from corpora import write_sides

from keras_transformer.train.data import filters
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.data.filters import ExaminedPairs, PairFilters


def reasons(names, **values):
    split = open_corpus(names).pairs("train")
    examined = ExaminedPairs(split, PairFilters(**values))
    assert list(examined) == list(examined)  # it can be read again
    pairs = [(source, target) for source, target, _ in examined]
    assert pairs == [tuple(pair[:2]) for pair in split]
    return [reason for _, _, reason in examined]


def test_each_filter_of_texts_is_off_by_default(tmp_path):
    names = write_sides(tmp_path, pairs=[("a", "a"), ("12", "!"), ("", "")])
    assert reasons(names) == [""] * 3
    assert reasons(names, drop_identical=True) == ["identical", "", "identical"]
    assert reasons(names, min_letters=0.5) == ["", "letters", ""]


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


def test_exactly_so_many_letters_are_enough(tmp_path):
    names = write_sides(
        tmp_path, pairs=[("a1", "b"), ("a", "b2"), ("a", "b34")]
    )
    assert reasons(names, min_letters=0.5) == ["", "", "letters"]


def test_all_but_the_first_of_equal_pairs_are_duplicates():
    """What another reason rules out is not a first one."""
    examined = [
        *[("a", "b", "letters"), ("a", "b", ""), ("a b", "", "")],
        *[("a", "b", ""), ("a", "b", "letters"), ("a", " b", "")],
        ("a b", "", ""),
    ]
    marked = list(filters.mark_duplicates(examined))
    assert [pair for *pair, _ in marked] == [pair for *pair, _ in examined]
    assert [reason for *_, reason in marked] == [
        *["letters", "", "", "duplicate", "letters", "", "duplicate"]
    ]


def test_what_a_tokenizer_is_trained_on():
    examined = [("a", "b", "letters"), ("c", "d", "")]
    assert list(filters.keep_passing(examined)) == [("c", "d")]


def test_the_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "dropped.tsv"
    with filters.write_dropped(path) as write:
        write("long", ("ä\tb", "c\r\nd"))
        write("empty", ["", "e"])
        assert not path.exists()
    assert path.read_bytes().decode() == "long\tä b\tc  d\nempty\t\te\n"
