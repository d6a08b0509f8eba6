"""Sequences of symbols, and the repair of ill-formed ones."""

import itertools
import re

import pytest
import random_trees
from hypothesis import given
from hypothesis import strategies as st
from treebank import craft_files

from keras_transformer.support.errors import InputError
from keras_transformer.tasks.parsing import (
    Tree,
    linearize,
    read_trees,
    restore,
    symbols,
)

TREE = Tree.parse("(TOP (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))")
SEQUENCE = "(S (NP ▁the /DT ▁dog /NN )NP (VP ▁barks /VBZ )VP ▁. /. )S"
SYMBOLS = "(S (NP /DT /NN )NP (VP /VBZ )VP /. )S"
WORDS = ["the", "dog", "barks", "."]


def test_linearize():
    assert linearize(TREE) == SEQUENCE
    assert linearize(Tree.parse("(TOP (UH yes) (. .))")) == "▁yes /UH ▁. /."
    assert (
        linearize(Tree.parse("(TOP (TOP (TOP dog)))")) == "(TOP ▁dog /TOP )TOP"
    )
    assert linearize(Tree("TOP", ())) == ""


@pytest.mark.parametrize("text", ["(S (NN dog))", "(TOP dog)"])
def test_linearize_needs_the_root(text):
    with pytest.raises(InputError, match="must have the root TOP over"):
        linearize(Tree.parse(text))


def test_symbols():
    other = Tree.parse("(TOP (S (UH yes) (. .)))")
    expected = "(NP (S (VP )NP )S )VP /. /DT /NN /UH /VBZ".split()
    assert symbols(iter([TREE, other, TREE])) == expected
    assert symbols([]) == []


def test_restore():
    assert restore(SEQUENCE.split(), WORDS) == (TREE, False)
    assert restore(tuple(SYMBOLS.split()), tuple(WORDS)) == (TREE, False)
    # The words of the sentence count.
    other = [text.replace("▁", "▁un") for text in SEQUENCE.split()]
    assert restore(other, WORDS) == (TREE, False)
    # Words may be written in pieces.
    pieces = SEQUENCE.replace("▁barks", "▁b ar ks").split()
    assert restore(pieces, WORDS) == (TREE, False)


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        # A word that is missing: before the next tag.
        (
            "(NP ▁the /DT )NP (VP ▁barks /VBZ",
            "(NP (DT the)) (VP (XX dog) (VBZ barks))",
        ),
        # One too many.
        (
            "(NP ▁the /DT ▁the /DT ▁dog /NN )NP ▁barks /VBZ",
            "(NP (DT the) (NN dog)) (VBZ barks)",
        ),
        # Another one.
        ("(NP ▁the /DT ▁cat /NN )NP", "(NP (DT the) (NN dog)) (XX barks)"),
        # Missing at the end, and at the beginning.
        ("(NP ▁the /DT ▁dog /NN", "(NP (DT the) (NN dog) (XX barks))"),
        ("(NP ▁dog /NN )NP", "(NP (XX the) (NN dog)) (XX barks)"),
    ],
)
def test_words_are_aligned(sequence, expected):
    tree, _ = restore(sequence.split(), ["the", "dog", "barks"])
    assert str(tree) == f"(TOP {expected})"
    assert restore([], []) == (Tree("TOP", ()), False)


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        # What is no symbol is a word.
        ("(NP ( / x NN /a(b /DT [] /NN )) ) )NP )S", "(NP (DT a) (NN b))"),
        # A tag without a word.
        ("/DT (NP /NN /NN )NP /.", "(DT a) (NP (NN b))"),
        # A closing bracket without an opening one.
        (")NP (NP /DT )NP )NP /NN )S", "(NP (DT a)) (NN b)"),
        ("(S (NP /DT )VP /NN )NP )S", "(S (NP (DT a) (NN b)))"),
        ("(S /DT )TOP /NN )S", "(S (DT a) (NN b))"),
        # One that closes all that are inside of its constituent.
        ("(S (VP (NP /DT )VP /NN )S", "(S (VP (NP (DT a))) (NN b))"),
        ("(S (X (NP (NP /DT )S /NN", "(S (X (NP (NP (DT a))))) (NN b)"),
        ("(NP (NP (X /DT )NP /NN )NP", "(NP (NP (X (DT a))) (NN b))"),
        # Words without a tag: in the innermost constituent that is open.
        ("", "(XX a) (XX b)"),
        ("(NP /DT )NP", "(NP (DT a)) (XX b)"),
        ("(S (NP /DT )NP (VP", "(S (NP (DT a)) (VP (XX b)))"),
        ("(S (NP /DT )NP (VP )VP", "(S (NP (DT a)) (XX b))"),
        ("(S (NP", "(S (NP (XX a) (XX b)))"),
        # Open brackets.
        ("(S (NP /DT )NP (VP (X /NN )X", "(S (NP (DT a)) (VP (X (NN b))))"),
        ("(S (NP /DT /NN )NP (VP", "(S (NP (DT a) (NN b)))"),
        # Constituents without words.
        (
            "(X )X (S (X (Y )Y )X /DT (X )X /NN )S",
            "(S (DT a) (NN b))",
        ),
        ("(S /DT /NN (X /NN )X )S", "(S (DT a) (NN b))"),
        # The word is missing, and so is the constituent's bracket.
        ("(TOP /DT /NN", "(TOP (DT a) (NN b))"),
        ("(TOP dog) /( // )TOP x", "(TOP (/ a)) (XX b)"),
    ],
)
def test_repair(sequence, expected):
    tree, repaired = restore(sequence.split(), ["a", "b"])
    assert str(tree) == f"(TOP {expected})"
    assert repaired


@pytest.mark.parametrize(
    ("sequence", "words"),
    [
        (["/XX /XX"], ["a", "b"]),
        (["(X /XX", ")X"], ["a"]),
        (["(X", ")X"], []),
        (["/NN"], []),
    ],
)
def test_repaired_compares_the_symbols(sequence, words):
    """Joined with spaces, some of these are the symbols of the tree."""
    tree, repaired = restore(sequence, words)
    assert repaired
    assert tree.words == words


def test_deep_sequence():
    sequence = [*["(X"] * 5_000, "▁dog", "/NN", *[")X"] * 5_000]
    tree, repaired = restore(sequence, ["dog"])
    assert not repaired
    assert linearize(tree).split() == sequence


def test_words_of_no_tree():
    with pytest.raises(InputError, match=r"word='f\(x\)'.* -LRB-"):
        restore(["/NN"], ["f(x)"])
    with pytest.raises(InputError, match="word=''"):
        restore(["/NN"], ["dog", ""])


@random_trees.fixed
@given(random_trees.trees)
def test_random_trees(tree):
    sequence = linearize(tree).split()
    assert restore(sequence, tree.words) == (tree, False)
    symbols_of_tree = {one for one in sequence if one[0] != "▁"}
    assert symbols_of_tree == set(symbols([tree]))


_SYMBOLS = ["(S", "(NP", "(TOP", "/NN", "/,", "//", "/)", "(", "/", "", "a b"]


def symbols_of(sequence):
    return [one for one in sequence if re.fullmatch(r"[(/)][^() ]+", one)]


_CLOSING = [")S", ")NP", ")VP", ")TOP"]


@random_trees.fixed
@given(
    st.lists(
        st.sampled_from([*_SYMBOLS, *_CLOSING, "/DT", "(VP"]), max_size=20
    ),
    st.lists(random_trees.words, max_size=6),
)
def test_random_sequences(sequence, words):
    tree, repaired = restore(sequence, words)
    assert tree.words == words
    assert Tree.parse(str(tree)) == tree
    again = [one for one in linearize(tree).split() if one[0] != "▁"]
    assert repaired == (again != symbols_of(sequence))
    assert restore(again, words) == (tree, False)
    # Nothing is invented, and nothing changes its place.
    kept = iter(symbols_of(sequence))
    for symbol in again:
        assert symbol[0] == ")" or symbol == "/XX" or symbol in kept


@pytest.mark.parametrize(
    "count", [100, pytest.param(None, marks=pytest.mark.slow)]
)
def test_trees_of_craft(count):
    for path in craft_files():
        with path.open(encoding="utf-8", newline="\n") as file:
            lines = list(itertools.islice(file, count))
        trees = list(itertools.islice(read_trees(path), count))
        assert [f"{tree}\n" for tree in trees] == lines
        assert len(trees) == count or count is None
        for tree in trees:
            found = restore(linearize(tree).split(), tree.words)
            assert found == (tree, False)
