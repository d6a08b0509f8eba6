"""Trees as sequences of symbols, which a model learns to write.

The sequence of a sentence is its tree in the order of the text, without the
root: `(NP` opens a constituent, `▁the` is a word, `/DT` is the tag of the
word before it, and `)NP` closes a constituent. The symbols are what remains
without the words. They suffice to restore the tree, since the words are those
of the sentence that is parsed.

As in Vinyals et al., 2015 (Grammar as a Foreign Language), which section 6.3
of the paper refers to, except that tags and words are kept. A model that only
writes symbols has to count how many words it has passed.
"""

import re
from collections.abc import Iterable, Sequence

from keras_transformer.errors import InputError
from keras_transformer.parsing.trees import ROOT, Tree, TreeBuilder

# What a word begins with, as in SentencePiece.
WORD = "▁"
# Tag of the words that a sequence has no tag for, as in OntoNotes.
UNKNOWN_TAG = "XX"
_SYMBOL = re.compile(r"(?P<kind>[(/)])(?P<label>[^() \t\n\r\f\v]+)")


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


def restore(symbols: Sequence[str], words: Sequence[str]) -> tuple[Tree, bool]:
    """Returns the tree of a sequence of symbols, whatever the sequence is.

    The symbols are read from left to right. What is ill-formed is repaired:

    1. What is neither a bracket nor a tag is dropped, as is a tag when no
       words are left.
    2. A closing bracket closes the constituent with its label that was opened
       last and is still open, and all that are open inside of it. If there is
       none, the bracket is dropped.
    3. After the last symbol the words that are left are added, each with the
       tag `XX`, to the constituent that was opened last and is still open, or
       to the root if none is.
    4. Constituents that are still open are closed.
    5. Constituents without words are removed.

    Everything is put under the root `TOP`.

    Args:
        symbols: What a model wrote, as from `linearize(tree).split(" ")`,
            with or without the words, which are ignored.
        words: The words of the sentence, without round brackets: see
            `escape_brackets`.

    Returns:
        The tree, which has exactly these words; and whether the sequence was
        repaired, that is, whether it differs from the symbols of the tree.

    Raises:
        InputError: If a word is empty or contains brackets or whitespace.
    """
    symbols = [symbol for symbol in symbols if symbol[:1] != WORD]
    builder = TreeBuilder()
    used = 0
    for symbol in symbols:
        match = _SYMBOL.fullmatch(symbol)
        if match is None:
            continue
        kind, label = match.groups()
        if kind == "(":
            builder.open(label)
        elif kind == ")":
            builder.close(label)
        elif used < len(words):
            builder.word(label, words[used])
            used += 1
    for word in words[used:]:
        builder.word(UNKNOWN_TAG, word)
    tree = builder.finish()
    return tree, _symbols(tree) != symbols


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
