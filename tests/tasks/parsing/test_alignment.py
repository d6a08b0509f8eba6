"""Alignment of words, against all alignments."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_trees import fixed

from keras_transformer.tasks.parsing.alignment import align

_words = st.lists(st.sampled_from("abc"), max_size=5)


def alignments(written, words):
    """All of them, with their numbers of edits."""
    for kept in itertools.product((True, False), repeat=len(written)):
        for places in itertools.combinations(range(len(words)), sum(kept)):
            rest = iter(places)
            found = [next(rest) if is_kept else None for is_kept in kept]
            same = sum(
                one == words[place]
                for one, place in zip(written, found, strict=True)
                if place is not None
            )
            yield len(written) + len(words) - sum(kept) - same, found


def edits(written, words, found):
    return next(n for n, one in alignments(written, words) if one == found)


@fixed
@given(_words, _words)
def test_no_alignment_has_fewer_edits(written, words):
    found = align(written, words)
    fewest = min(n for n, _ in alignments(written, words))
    assert edits(written, words, found) == fewest


@pytest.mark.parametrize(
    ("written", "words", "expected"),
    [
        ("abc", "abc", [0, 1, 2]),
        ("ac", "abc", [0, 2]),
        ("abbc", "abc", [0, 1, None, 2]),
        ("abxc", "abc", [0, 1, None, 2]),
        ("axc", "abc", [0, 1, 2]),
        ("bc", "abc", [1, 2]),
        ("", "abc", []),
        ("ab", "", [None, None]),
        # Without any word that is the same, they are taken in order.
        ("xx", "abc", [0, 1]),
        ("xxx", "ab", [0, 1, None]),
    ],
)
def test_alignments(written, words, expected):
    assert align(written, words) == expected
