"""Trees as sequences of symbols, which a model learns to write.

The sequence of a sentence is its tree in the order of the text, without the
root: `(NP` opens a constituent, `▁the` is a word, `/DT` is the tag of the
word before it, and `)NP` closes a constituent. The symbols are what remains
without the words. The words of a tree are those of the sentence that is parsed;
those that a model writes tell which words its tags stand for.

As in Vinyals et al., 2015 (Grammar as a Foreign Language), which section 6.3
of the paper refers to, except that tags and words are kept. A model that only
writes symbols has to count how many words it has passed.
"""

import re
from collections.abc import Iterable, Sequence

from keras_transformer.support.errors import InputError
from keras_transformer.tasks.parsing.alignment import align
from keras_transformer.tasks.parsing.trees import ROOT, Tree, TreeBuilder

# What a word begins with, as in SentencePiece.
WORD = "▁"
# Tag of the words that a sequence has no tag for, as in OntoNotes.
UNKNOWN_TAG = "XX"
_SYMBOL = re.compile(r"[(/)][^() \t\n\r\f\v]+")


def linearize(tree: Tree) -> str:
    """Returns the symbols and words of a tree, separated by spaces.

    Args:
        tree: A tree with the root `TOP`.

    Raises:
        InputError: If the root has another label, or is a tagged word.

    Example:

    ```python
    linearize(Tree.parse("(TOP (NP (DT the) (NN dog)))"))
    # "(NP ▁the /DT ▁dog /NN )NP"
    ```
    """
    return " ".join(_sequence(tree))


def symbols(trees: Iterable[Tree]) -> list[str]:
    """Returns the distinct symbols of several trees, sorted."""
    return sorted(set().union(*map(_symbols, trees)))


def restore(sequence: Sequence[str], words: Sequence[str]) -> tuple[Tree, bool]:
    """Returns the tree of a sequence, whatever the sequence is.

    It is read from left to right. What is ill-formed is repaired:

    1. What is neither a bracket nor a tag belongs to a word. The word of a
       tag is what is written after the symbol before it.
    2. The words that are written are aligned with those of the sentence
       (`alignment.align`). A tag whose word is one too many is dropped. Words
       that are missing are added before the next tag, each with the tag `XX`;
       after the last symbol, to the constituent that was opened last and is
       still open, or to the root if none is.
    3. A closing bracket closes the constituent with its label that was opened
       last and is still open, and all that are open inside of it. If there is
       none, the bracket is dropped.
    4. Constituents that are still open at the end are closed.
    5. Constituents without words are removed.

    Everything is put under the root `TOP`.

    Args:
        sequence: What a model wrote, as from `linearize(tree).split(" ")`.
            Without the words, tags stand for the words in order.
        words: The words of the sentence, without round brackets: see
            `escape_brackets`.

    Returns:
        The tree, which has exactly these words; and whether the sequence was
        repaired, that is, whether its symbols differ from those of the tree.

    Raises:
        InputError: If a word is empty or contains brackets or whitespace.
    """
    symbols, written = _split(sequence)
    places = iter(align(written, [f"{WORD}{word}" for word in words]))
    builder = TreeBuilder()
    used = 0
    for symbol in symbols:
        kind, label = symbol[0], symbol[1:]
        if kind == "(":
            builder.open(label)
        elif kind == ")":
            builder.close(label)
        elif (place := next(places)) is not None:
            for word in words[used:place]:
                builder.word(UNKNOWN_TAG, word)
            builder.word(label, words[place])
            used = place + 1
    for word in words[used:]:
        builder.word(UNKNOWN_TAG, word)
    tree = builder.finish()
    return tree, _symbols(tree) != symbols


def _split(sequence: Iterable[str]) -> tuple[list[str], list[str]]:
    """Returns the symbols of a sequence, and the word of each tag."""
    symbols, written, word = [], [], ""
    for part in sequence:
        if _SYMBOL.fullmatch(part) is None:
            word += part
            continue
        symbols.append(part)
        if part[0] == "/":
            written.append(word)
        word = ""
    return symbols, written


def _symbols(tree: Tree) -> list[str]:
    return [symbol for symbol in _sequence(tree) if symbol[0] != WORD]


def _sequence(tree: Tree) -> list[str]:
    if tree.label != ROOT or isinstance(tree.children, str):
        raise InputError(
            f"A tree must have the root {ROOT} over its words. Received: a "
            f"tree with the root {tree.label}. `read_trees` adds it."
        )
    found = []
    for kind, node in tree.walk():
        if kind == "word":
            found += [f"{WORD}{node.children}", f"/{node.label}"]
        else:
            found.append(("(" if kind == "open" else ")") + node.label)
    return found[1:-1]
