"""Sequences of symbols, and the repair of ill-formed ones.

test_graph.py has the rule of repair in detail.
"""

import itertools

import pytest
import reference_linearization as reference
from treebank import craft_files

from keras_transformer.support.errors import InputError
from keras_transformer.tasks.parsing import (
    Tree,
    linearize,
    read_trees,
    restore,
    symbols,
)

TREE = Tree.from_string(
    "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))"
)
SEQUENCE = "(S (NP ▁the /DT ▁dog /NN )NP (VP ▁barks /VBZ )VP ▁. /. )S"
SYMBOLS = "(S (NP /DT /NN )NP (VP /VBZ )VP /. )S"
WORDS = ["the", "dog", "barks", "."]


@pytest.mark.parametrize(
    ("text", "sequence"),
    [
        (str(TREE), SEQUENCE),
        ("(TOP (UH yes) (. .))", "▁yes /UH ▁. /."),
        ("(TOP (TOP (TOP dog)))", "(TOP ▁dog /TOP )TOP"),
        ("(TOP)", ""),
    ],
)
def test_linearize(text, sequence):
    assert linearize(Tree.from_string(text)) == sequence


@pytest.mark.parametrize("text", ["(S (NN dog))", "(TOP dog)"])
def test_the_root_must_be_top(text):
    for function in (linearize, lambda tree: symbols([tree])):
        with pytest.raises(InputError, match="must have the root TOP over"):
            function(Tree.from_string(text))


def test_symbols():
    other = Tree.from_string("(TOP (S (UH yes) (. .)))")
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
    assert restore([], []) == (Tree("TOP", ()), False)


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


def test_words_with_brackets_are_refused():
    with pytest.raises(InputError, match=r"word='f\(x\)'.* -LRB-"):
        restore(["/NN"], ["f(x)"])
    with pytest.raises(InputError, match="word=''"):
        restore(["/NN"], ["dog", ""])


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
            sequence = reference.linearize(tree).split()
            assert reference.restore(sequence, tree.words) == (tree, False)
