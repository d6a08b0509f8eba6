"""Trees as sequences of symbols, which a model learns to write.

The sequence of a sentence is its tree in the order of the text, without the
root: `(NP` opens a constituent, `▁the` is a word, `/DT` is the tag of the
word before it, and `)NP` closes a constituent. All but the words are symbols.
The words of a tree are those of the sentence that is parsed; those that a model
writes tell which words its tags stand for.

As in Vinyals et al., 2015 (Grammar as a Foreign Language), which section 6.3
of the paper refers to, except that tags and words are kept. A model that only
writes symbols has to count how many words it has passed.
"""

from collections.abc import Iterable

from keras_transformer.support.errors import InputError
from keras_transformer.tasks.parsing.trees import ROOT, Tree

# The first character of a word, as in SentencePiece.
WORD = "▁"
# Tag of the words that a sequence has no tag for, as in OntoNotes.
UNKNOWN_TAG = "XX"


def symbols(trees: Iterable[Tree]) -> list[str]:
    """Returns the distinct symbols of several trees, sorted.

    Raises:
        InputError: If a tree does not have the root `TOP` over its words.
    """
    symbols = set()
    for tree in trees:
        if tree.label != ROOT or isinstance(tree.children, str):
            raise InputError(
                f"A tree must have the root {ROOT} over its words. Received: a "
                f"tree with the root {tree.label}. `read_trees` adds it."
            )
        for event, node in tree.walk():
            if event == "word":
                symbols.add(f"/{node.label}")
            elif node is not tree:
                symbols.update([f"({node.label}", f"){node.label}"])
    return sorted(symbols)


def linearize(tree: Tree) -> list[str]:
    """Returns the words and symbols of a tree's sequence."""
    parts = []
    for event, node in tree.walk():
        if event == "word":
            parts += [f"{WORD}{node.children}", f"/{node.label}"]
        elif node is not tree:
            parts.append(f"{'(' if event == 'open' else ')'}{node.label}")
    return parts
