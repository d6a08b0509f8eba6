import pytest

from keras_transformer.tasks.parsing import Tree, symbols
from keras_transformer.tasks.parsing.linearization import linearize

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
