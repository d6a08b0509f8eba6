"""Trees as sequences of symbols, which a model learns to write.

The sequence of a sentence is its tree in the order of the text, without the
root: `(NP` opens a constituent, `▁the` is a word, `/DT` is the tag of the
word before it, and `)NP` closes a constituent. All but the words are symbols.
The words of a tree are those of the sentence that is parsed; those that a model
writes tell which words its tags stand for.

As in Vinyals et al., 2015 (Grammar as a Foreign Language), which section 6.3
of the paper refers to, except that tags and words are kept. A model that only
writes symbols has to count how many words it has passed.

`tree_ops.py` has the TensorFlow operations, which an exported parser contains.
"""

from collections.abc import Iterable, Sequence

from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import (
    explain_missing_packages,
    quiet_tensorflow_import,
)
from keras_transformer.tasks.parsing.trees import ROOT, Tree

# The first character of a word, as in SentencePiece.
WORD = "▁"
# Tag of the words that a sequence has no tag for, as in OntoNotes.
UNKNOWN_TAG = "XX"


def linearize(tree: Tree) -> str:
    """Returns the symbols and words of a tree, separated by spaces.

    Args:
        tree: A tree with the root `TOP`.

    Raises:
        InputError: If the root has another label, or is a tagged word.

    Example:

    ```python
    linearize(Tree.from_string("(TOP (NP (DT the) (NN dog)))"))
    # "(NP ▁the /DT ▁dog /NN )NP"
    ```
    """
    with explain_missing_packages(), quiet_tensorflow_import():
        import tensorflow as tf

        from keras_transformer.tasks.parsing.tree_ops import linearize_texts

    _check_root(tree)
    return linearize_texts(tf.constant([str(tree)])).numpy()[0].decode()


def symbols(trees: Iterable[Tree]) -> list[str]:
    """Returns the distinct symbols of several trees, sorted.

    Raises:
        InputError: If a tree does not have the root `TOP` over its words.
    """
    symbols = set()
    for tree in trees:
        _check_root(tree)
        for event, node in tree.walk():
            if event == "word":
                symbols.add(f"/{node.label}")
            elif node is not tree:
                symbols.update([f"({node.label}", f"){node.label}"])
    return sorted(symbols)


def restore(sequence: Sequence[str], words: Sequence[str]) -> tuple[Tree, bool]:
    """Returns the tree of a sequence, whatever the sequence is.

    It is read from left to right, and repaired where it is ill-formed:

    1. An item that is neither a bracket nor a tag belongs to a word. The word
       of a tag is written after the symbol before it.
    2. The words that are written are aligned in order with those of the
       sentence, with as few missing, surplus and different words as possible.
       If several alignments are as good, the written words decide in order:
       each is paired with the next word of the sentence if it can be, or else
       is surplus if it can be, or else words are missing before it.
       A tag whose word is surplus is dropped. Words that are missing are added
       before the next tag, each with the tag `XX`; after the last symbol, to
       the constituent that was opened last and is still open, or to the root
       if none is.
    3. A closing bracket closes the constituent with its label that was opened
       last and is still open, and all that are open inside of it. If there is
       none, the bracket is dropped.
    4. Constituents that are still open at the end are closed.
    5. Constituents without words are removed.

    Everything is put under the root `TOP`.

    Args:
        sequence: A model's output, as from `linearize(tree).split(" ")`.
            Without the words, tags stand for the words in order.
        words: The words of the sentence, without round brackets: see
            `escape_brackets`.

    Returns:
        The tree, which has exactly these words; and whether the sequence was
        repaired, that is, whether its symbols differ from those of the tree.

    Raises:
        InputError: If a word is empty or contains brackets or whitespace.
    """
    with explain_missing_packages(), quiet_tensorflow_import():
        import tensorflow as tf

        from keras_transformer.tasks.parsing.tree_ops import restore_texts

    for word in words:
        Tree(UNKNOWN_TAG, word)  # checks it
    pieces = tf.constant([[*sequence]], tf.string)
    ragged = tf.ragged.constant([[*words]], tf.string)
    (text,), (repaired,) = restore_texts(
        pieces,
        tf.strings.regex_full_match(pieces, r"[(/)][^()\s\v]+"),
        ragged,
        tf.ragged.map_flat_values(lambda x: WORD + x, ragged),
    )
    return Tree.from_string(text.numpy().decode()), bool(repaired)


def _check_root(tree: Tree) -> None:
    if tree.label != ROOT or isinstance(tree.children, str):
        raise InputError(
            f"A tree must have the root {ROOT} over its words. Received: a "
            f"tree with the root {tree.label}. `read_trees` adds it."
        )
