"""Trees as sequences of symbols, which a model learns to write.

The sequence of a sentence is its tree in the order of the text, without the
root: `(NP` opens a constituent, `▁the` is a word, `/DT` is the tag of the
word before it, and `)NP` closes a constituent. All but the words are symbols.
The tree gets the words of the parsed sentence; the words that a model writes
only align its tags with them.

As in Vinyals et al., 2015 (Grammar as a Foreign Language), which section 6.3
of the paper cites, except that tags and words are kept: without them a model
would have to count the words.
"""

from collections.abc import Iterable

from keras_transformer.tasks.parsing.trees import Tree

# The first character of a word, as in SentencePiece.
WORD = "▁"
# Tag of words for which the sequence contains no tag, as in OntoNotes.
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
