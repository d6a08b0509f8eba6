"""Linearization, its inverse, and splitting into words, as TensorFlow graphs.

An exported parser contains them. `linearization.py` defines the symbols and
the repair rule, and computes the same from Python's trees.

Letters: B = batch, N = sequences, T = symbols, W = words, L = symbols after
the repair.
"""

import re
from typing import NamedTuple

import tensorflow as tf

from keras_transformer.parsing.linearization import CLOSE, UNKNOWN_TAG
from keras_transformer.parsing.trees import ROOT

# How the Penn Treebank splits English text into words: quotes become `` and
# '', brackets -LRB- and the like; punctuation and clitics are words. Patterns
# and replacements, in the order in which they are applied.
_WORD_RULES = (
    ("[‘’]", "'"),
    ("“", " `` "),
    ("”", " '' "),
    (r"^\s*\"", "`` "),
    (r"([\s(\[{<])\"", r"\1 `` "),
    (r"\.\.\.", " ... "),
    (r"([:,])([^\d])", r" \1 \2"),
    (r"([:,])\s*$", r" \1 "),
    (r"([;@#$%&?!])", r" \1 "),
    (r"([^.\s])(\.)([\])}>\"']*)\s*$", r"\1 \2\3 "),
    (r"\(", " -LRB- "),
    (r"\)", " -RRB- "),
    (r"\[", " -LSB- "),
    (r"\]", " -RSB- "),
    (r"\{", " -LCB- "),
    (r"\}", " -RCB- "),
    (r"--+", " -- "),
    (r"\"", " '' "),
    (r"([^'\s])('[sSmMdD]|'ll|'LL|'re|'RE|'ve|'VE|n't|N'T)(\s|$)", r"\1 \2\3"),
    (r"([^'\s])'(\s|$)", r"\1 '\2"),
    (r"\b([Cc]an)(not)\b", r"\1 \2"),
)


def split_words(texts: tf.Tensor) -> tf.Tensor:
    """Splits English sentences into words as the Penn Treebank does.

    Args:
        texts: String tensor `[B]`, one sentence each.

    Returns:
        String tensor `[B]`, the words separated by single spaces.
    """
    for pattern, replacement in _WORD_RULES:
        texts = tf.strings.regex_replace(texts, pattern, replacement)
    return join_words(texts)


def join_words(texts: tf.Tensor) -> tf.Tensor:
    """Returns words separated by single spaces, without round brackets.

    Args:
        texts: String tensor `[B]`, words separated by whitespace.
    """
    texts = tf.strings.regex_replace(texts, r"\(", "-LRB-")
    texts = tf.strings.regex_replace(texts, r"\)", "-RRB-")
    return tf.strings.strip(tf.strings.regex_replace(texts, r"\s+", " "))


def linearize_texts(trees: tf.Tensor) -> tf.Tensor:
    """Returns the symbols of trees, separated by spaces, as `linearize` does.

    Args:
        trees: String tensor `[B]`, trees as `str(tree)` writes them.
    """
    texts = tf.strings.regex_replace(trees, r"\(([^\s()]+) [^\s()]+\)", r"/\1")
    texts = tf.strings.regex_replace(texts, r"\)", f" {CLOSE}")
    pattern = rf"^\({ROOT} (.*) {re.escape(CLOSE)}$"
    return tf.strings.regex_replace(texts, pattern, r"\1")


class Restored(NamedTuple):
    """Trees made of sequences of symbols."""

    texts: tf.Tensor  # [N] string: trees as `str(tree)` writes them
    repaired: tf.Tensor  # [N] boolean, True where a sequence was ill-formed


def restore_texts(
    symbols: tf.Tensor, in_use: tf.Tensor, sentences: tf.Tensor
) -> Restored:
    """Returns the trees of sequences of symbols, as `restore` does.

    Args:
        symbols: String tensor `[N, T]`.
        in_use: Boolean `[N, T]`, False for padding.
        sentences: String tensor `[N]`, the words of each, from `join_words`.
            A sentence without words has no tree: its text is `(TOP)`.
    """
    words = tf.strings.split(sentences)  # [N, (W)]
    num_words = tf.cast(words.row_lengths(), tf.int32)
    is_open = in_use & tf.strings.regex_full_match(symbols, r"\([^() \t-\r]+")
    is_tag = in_use & tf.strings.regex_full_match(symbols, r"/[^() \t-\r]+")
    is_close = in_use & (symbols == CLOSE)

    # Rule 1: what cannot be there is dropped.
    place = tf.cumsum(tf.cast(is_tag, tf.int32), axis=1, exclusive=True)
    is_tag &= place < num_words[:, None]
    change = tf.cast(is_open, tf.int32) - tf.cast(is_close, tf.int32)
    depth = _depths(change)  # [N, T], after each symbol
    before = tf.pad(depth, [[0, 0], [1, 0]])[:, :-1]
    is_close &= before > 0
    dropped = in_use & ~(is_open | is_tag | is_close)

    # Rules 2 and 3: what is missing is added at the end.
    missing = num_words - tf.reduce_sum(tf.cast(is_tag, tf.int32), axis=1)
    still_open = tf.pad(depth, [[0, 0], [1, 0]])[:, -1]
    added_tags = tf.sequence_mask(missing)
    added_closes = tf.sequence_mask(still_open)
    no_tags, no_closes = (
        tf.zeros_like(added) for added in (added_tags, added_closes)
    )
    is_open = tf.concat([is_open, no_tags, no_closes], axis=1)  # [N, L]
    is_tag = tf.concat([is_tag, added_tags, no_closes], axis=1)
    is_close = tf.concat([is_close, no_tags, added_closes], axis=1)
    symbols = tf.concat(
        [
            symbols,
            tf.fill(tf.shape(added_tags), f"/{UNKNOWN_TAG}"),
            tf.fill(tf.shape(added_closes), CLOSE),
        ],
        axis=1,
    )

    # Rule 4: constituents without words are removed.
    is_empty = _are_empty(is_open, is_tag, is_close)
    repaired = tf.reduce_any(dropped, axis=1) | tf.reduce_any(is_empty, axis=1)
    repaired |= (missing > 0) | (still_open > 0)

    place = tf.cumsum(tf.cast(is_tag, tf.int32), axis=1, exclusive=True)
    # One column more, which the places after the last word refer to.
    words = words.to_tensor("")
    words = tf.concat([words, tf.fill([tf.size(num_words), 1], "")], axis=1)
    place = tf.minimum(place, tf.shape(words)[1] - 1)
    words = tf.gather(words, place, batch_dims=1)  # [N, L]
    tags = tf.strings.substr(symbols, 1, -1)
    tagged = tf.strings.join(["(", tags, " ", words, ") "])
    brackets = tf.where(is_close, ")", symbols)
    brackets = tf.strings.join([brackets, " "])
    texts = tf.where(is_tag, tagged, "")
    texts = tf.where((is_open | is_close) & ~is_empty, brackets, texts)
    texts = tf.strings.reduce_join(texts, axis=1)
    texts = tf.strings.join([f"({ROOT} ", texts, ")"])
    return Restored(tf.strings.regex_replace(texts, r" +\)", ")"), repaired)


def _depths(change: tf.Tensor) -> tf.Tensor:
    """Returns how many brackets are open after each symbol, `[N, T]`.

    Args:
        change: `[N, T]`, 1 for an opening and -1 for a closing bracket, which
            has no effect if none is open.
    """
    depths = tf.scan(
        lambda depth, step: tf.maximum(depth + step, 0),
        tf.transpose(change),
        initializer=tf.zeros_like(change[:, 0]),
    )
    return tf.transpose(depths)


def _are_empty(
    is_open: tf.Tensor, is_tag: tf.Tensor, is_close: tf.Tensor
) -> tf.Tensor:
    """Returns which brackets are those of constituents without words, `[N, L]`.

    Args:
        is_open: Boolean `[N, L]`; every bracket has its counterpart.
        is_tag: Boolean `[N, L]`.
        is_close: Boolean `[N, L]`.
    """
    opened = tf.cumsum(tf.cast(is_open, tf.int32), axis=1)
    closed = tf.cumsum(tf.cast(is_close, tf.int32), axis=1, exclusive=True)
    is_bracket = is_open | is_close
    length = tf.shape(is_open)[1]
    # Opening and closing brackets of the same depth alternate.
    depth = tf.where(is_bracket, opened - closed, length + 1)
    order = tf.argsort(depth, axis=1, stable=True)
    words = tf.cumsum(tf.cast(is_tag, tf.int32), axis=1)
    words = tf.gather(words, order, batch_dims=1)
    words = tf.pad(words, [[0, 0], [0, length % 2]])
    pairs = tf.reshape(words, [-1, (length + 1) // 2, 2])
    is_empty = tf.repeat(pairs[:, :, 0] == pairs[:, :, 1], 2, axis=1)
    inverse = tf.argsort(order, axis=1)
    return is_bracket & tf.gather(is_empty, inverse, batch_dims=1)
