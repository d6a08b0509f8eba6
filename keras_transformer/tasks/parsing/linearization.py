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

from keras_transformer.tasks.parsing.trees import Tree

# The first character of a word, as in SentencePiece.
WORD = "▁"
# Tag of the words that a sequence has no tag for, as in OntoNotes.
UNKNOWN_TAG = "XX"


def symbols(trees: Iterable[Tree]) -> list[str]:
    """Returns the distinct symbols of several trees, sorted."""
    parts = {part for tree in trees for part in linearize(tree)}
    return sorted(part for part in parts if not part.startswith(WORD))


def linearize(tree: Tree) -> list[str]:
    """Returns the words and symbols of a tree's sequence."""
    parts = []
    for event, node in tree.walk():
        if event == "word":
            parts += [f"{WORD}{node.children}", f"/{node.label}"]
        elif node is not tree:
            parts.append(f"{'(' if event == 'open' else ')'}{node.label}")
    return parts
