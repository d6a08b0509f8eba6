"""The sequences and the symbols of trees."""

import itertools

import pytest
from treebank import craft_files

from keras_transformer.tasks.parsing import Tree, read_trees, symbols
from keras_transformer.tasks.parsing.linearization import linearize
from keras_transformer.tasks.parsing.repair import restore_tree

TREE = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))"


@pytest.mark.parametrize(
    ("tree", "sequence"),
    [
        (TREE, "(S (NP ▁the /DT ▁dog /NN )NP (VP ▁barks /VBZ )VP ▁. /. )S"),
        ("(TOP (UH yes) (. .))", "▁yes /UH ▁. /."),
        ("(TOP (TOP (TOP dog)))", "(TOP ▁dog /TOP )TOP"),
        ("(TOP)", ""),
    ],
)
def test_linearize(tree, sequence):
    assert linearize(Tree.from_string(tree)) == sequence.split()


def test_symbols():
    texts = [TREE, "(TOP (S (UH yes) (. .)))", TREE]
    expected = "(NP (S (VP )NP )S )VP /. /DT /NN /UH /VBZ".split()
    assert symbols(map(Tree.from_string, texts)) == expected
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
        for tree in trees:
            parts, words = linearize(tree), tree.words
            are_symbols = [not part.startswith("▁") for part in parts]
            spelled = [f"▁{word}" for word in words]
            found = restore_tree(parts, are_symbols, words, spelled)
            assert found == (tree, False)
