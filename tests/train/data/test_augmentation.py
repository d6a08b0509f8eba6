"""Variants: which there are, of how many pairs, and always the same."""

import itertools
import random

import pytest

from keras_transformer.train.data import augmentation
from keras_transformer.train.data.augmentation import add_variants
from keras_transformer.train.recipe import Recipe

PAIR = ("Is this Straße long?", "Ist diese Straße lang?")
CASES = {
    ("IS THIS STRASSE LONG?", "IST DIESE STRASSE LANG?"),
    ("Is This Straße Long?", PAIR[1]),
    ("is this straße long?", PAIR[1]),
}


def recipe(augment, typing_errors, seed=1):
    return Recipe(augment=augment, typing_errors=typing_errors, seed=seed)


def added(pairs, *shares, seed=1):
    """Returns the variants that follow each pair."""
    examined = [(*pair, "") for pair in pairs]
    augmented = list(add_variants(examined, recipe(*shares, seed)))
    assert [reason for *_, reason in augmented] == [""] * len(augmented)
    variants = []
    for *pair, _ in augmented:
        if examined and tuple(pair) == examined[0][:2]:
            examined.pop(0)
            variants.append([])
        else:
            variants[-1].append(tuple(pair))
    assert not examined
    return variants


def test_each_case_is_drawn_as_often():
    """One for a pair, of so many pairs."""
    for share, least, most in ((1, 3_000, 3_000), (0.3, 800, 1_000)):
        variants = added([PAIR] * 3_000, share, 0)
        assert max(map(len, variants)) == 1
        augmented = list(itertools.chain.from_iterable(variants))
        assert least <= len(augmented) <= most
        assert set(augmented) == CASES
        assert all(
            0.3 < augmented.count(x) / len(augmented) < 0.37 for x in CASES
        )


def test_typing_errors_are_of_the_source():
    variants = added([PAIR] * 1_000, 0, 0.5)
    augmented = list(itertools.chain.from_iterable(variants))
    assert 450 < len(augmented) < 550
    assert {target for _, target in augmented} == {PAIR[1]}
    # Of each kind, before each of 12 letters that follow another.
    sources = {source for source, _ in augmented}
    assert {"s this Straße long?", "Is tthis Straße long?"} < sources
    assert "Is this Straeß long?" in sources
    assert len(sources) == 12 * 3


def test_variants_depend_on_number_and_seed_alone():
    pairs = [(f"Pair {n}", f"Paar {n}") for n in range(200)]
    variants = added(pairs, 0.5, 0.5)
    assert added(pairs, 0.5, 0.5) == variants
    assert added(pairs[:100], 0.5, 0.5) == variants[:100]
    assert added(pairs, 0.5, 0.5, seed=2) != variants
    # Others are not moved by a pair with more variants, or by one dropped.
    assert added([("X y", "z"), *pairs[1:]], 0.5, 0.5)[1:] == (variants[1:])
    dropped = [("Not", "kept", "letters"), *((*x, "") for x in pairs)]
    augmented = list(add_variants(dropped, recipe(0.5, 0.5)))
    assert augmented[0] == dropped[0]
    kept = [[pair, *x] for pair, x in zip(pairs, variants, strict=True)]
    assert [tuple(pair) for *pair, _ in augmented[1:]] == [
        pair for pairs in kept for pair in pairs
    ]


@pytest.mark.parametrize("source", ["猫だ", "12:30", "", "हिन्दी"])
def test_without_case_there_is_no_variant(source):
    """Also if only the target has capitals: the source says nothing of them."""
    assert added([(source, "Halb eins")] * 20, 1, 0) == [[]] * 20


def test_what_has_no_two_letters_has_no_typing_errors():
    assert added([("a 1 b.", "a")] * 20, 0, 1) == [[]] * 20


def test_tags_are_kept():
    pairs = [(">>fra<< <bt> Hi <b>you</b>", "Salut")] * 50
    augmented = set(itertools.chain.from_iterable(added(pairs, 1, 1)))
    assert (">>fra<< <bt> HI <B>YOU</B>", "SALUT") in augmented
    assert all(x.startswith(">>fra<< <bt> ") for x, _ in augmented)


def test_off_nothing_is_added():
    examined = [("A", "b", ""), ("A", "b", "long")]
    assert list(add_variants(examined, Recipe())) == examined


def test_a_long_text_has_more_typing_errors():
    text = "word " * 40
    augmented = augmentation.misspell(text, random.Random(1).random)
    changed = sum(word != "word" for word in augmented.split(" ")[:-1])
    assert 4 <= changed <= 6  # a word may have two
