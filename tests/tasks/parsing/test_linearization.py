"""The sequences and the symbols of trees."""

import itertools

import pytest
import reference_linearization as reference
from treebank import craft_files

from keras_transformer.support.errors import InputError
from keras_transformer.tasks.parsing import Tree, read_trees, symbols
from keras_transformer.tasks.parsing.linearization import linearize

TREE = Tree.from_string(
    "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))"
)


@pytest.mark.parametrize("text", ["(S (NN dog))", "(TOP dog)"])
def test_the_root_must_be_top(text):
    with pytest.raises(InputError, match="must have the root TOP over"):
        symbols([Tree.from_string(text)])


@pytest.mark.parametrize(
    ("tree", "sequence"),
    [
        (
            "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))",
            "(S (NP ▁the /DT ▁dog /NN )NP (VP ▁barks /VBZ )VP ▁. /. )S",
        ),
        ("(TOP (UH yes) (. .))", "▁yes /UH ▁. /."),
        ("(TOP (TOP (TOP dog)))", "(TOP ▁dog /TOP )TOP"),
        ("(TOP)", ""),
    ],
)
def test_linearize(tree, sequence):
    assert linearize(Tree.from_string(tree)) == sequence.split()


def test_symbols():
    other = Tree.from_string("(TOP (S (UH yes) (. .)))")
    expected = "(NP (S (VP )NP )S )VP /. /DT /NN /UH /VBZ".split()
    assert symbols(iter([TREE, other, TREE])) == expected
    assert symbols([]) == []


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
