"""Linearization, its inverse, and splitting into words, as TensorFlow graphs.

An exported parser contains them. `linearization.py` defines the symbols and
the repair rule, and computes the same from Python's trees.

Letters: B = batch, N = sequences, T = symbols, W = words, L = symbols after
the repair.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_transformer.parsing.linearization import UNKNOWN_TAG, WORD
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
    """Returns the sequences of trees, separated by spaces, as `linearize` does.

    Args:
        trees: String tensor `[B]`, trees as `str(tree)` writes them.
    """
    texts = tf.strings.regex_replace(
        trees, r"\(([^\s()]+) ([^\s()]+)\)", rf"{WORD}\2 /\1"
    )
    texts = tf.strings.regex_replace(texts, r"\)", " )")
    texts = tf.strings.regex_replace(texts, rf"^\({ROOT} (.*) \)$", r"\1")
    symbols = tf.strings.split(texts).to_tensor("")  # [B, T]
    is_open, is_close = (_begins(symbols, bracket) for bracket in "()")
    counterpart = _counterparts(is_open, is_close)
    opening = tf.gather(symbols, counterpart, batch_dims=1)
    closing = tf.strings.join([")", _labels(opening)])
    symbols = tf.where(is_close, closing, symbols)
    symbols = tf.strings.reduce_join(symbols, axis=1, separator=" ")
    return tf.strings.strip(symbols)


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
        in_use: Boolean `[N, T]`, False for padding and what words consist of.
        sentences: String tensor `[N]`, the words of each, from `join_words`.
            A sentence without words has no tree: its text is `(TOP)`.
    """
    words = tf.strings.split(sentences)  # [N, (W)]
    num_words = tf.cast(words.row_lengths(), tf.int32)
    valid = tf.strings.regex_full_match(symbols, r"[(/)][^() \t-\r]+") & in_use
    is_open, is_tag, is_close = (valid & _begins(symbols, x) for x in "(/)")

    # Rules 1 and 2: what cannot be there is dropped, and a closing bracket
    # takes the place of all that it closes.
    place = tf.cumsum(tf.cast(is_tag, tf.int32), axis=1, exclusive=True)
    is_tag &= place < num_words[:, None]
    depth = _depths(_labels(symbols), is_open, is_close)
    before, after = depth[:, :-1], depth[:, 1:]
    count = tf.where(
        is_close, before - after, tf.cast(is_open | is_tag, tf.int32)
    )
    repaired = tf.reduce_any(in_use & (count != 1), axis=1)

    # Rules 3 and 4: what is missing is added at the end.
    missing = num_words - tf.reduce_sum(tf.cast(is_tag, tf.int32), axis=1)
    added = tf.stack([missing, depth[:, -1]], axis=1)
    repaired |= tf.reduce_any(added > 0, axis=1)
    count = tf.concat([count, added], axis=1)
    added = tf.fill([tf.size(num_words), 1], f"/{UNKNOWN_TAG}")
    symbols = tf.concat([symbols, added, tf.fill(tf.shape(added), ")")], axis=1)
    symbols = tf.RaggedTensor.from_row_lengths(
        tf.repeat(tf.reshape(symbols, [-1]), tf.reshape(count, [-1])),
        tf.reduce_sum(count, axis=1),
    ).to_tensor("")  # [N, L]
    is_open, is_tag, is_close = (_begins(symbols, x) for x in "(/)")

    # Rule 5: constituents without words are removed.
    place = tf.cumsum(tf.cast(is_tag, tf.int32), axis=1, exclusive=True)
    counterpart = _counterparts(is_open, is_close)
    is_empty = place == tf.gather(place, counterpart, batch_dims=1)
    is_empty &= is_open | is_close
    repaired |= tf.reduce_any(is_empty, axis=1)

    # One column more, which the places after the last word refer to.
    words = words.to_tensor("")
    words = tf.concat([words, tf.fill([tf.size(num_words), 1], "")], axis=1)
    place = tf.minimum(place, tf.shape(words)[1] - 1)
    words = tf.gather(words, place, batch_dims=1)  # [N, L]
    tagged = tf.strings.join(["(", _labels(symbols), " ", words, ") "])
    brackets = tf.where(is_close, ")", symbols)
    brackets = tf.strings.join([brackets, " "])
    texts = tf.where(is_tag, tagged, "")
    texts = tf.where((is_open | is_close) & ~is_empty, brackets, texts)
    texts = tf.strings.reduce_join(texts, axis=1)
    texts = tf.strings.join([f"({ROOT} ", texts, ")"])
    return Restored(tf.strings.regex_replace(texts, r" +\)", ")"), repaired)


def _begins(symbols: tf.Tensor, character: str) -> tf.Tensor:
    return tf.strings.substr(symbols, 0, 1) == character


def _labels(symbols: tf.Tensor) -> tf.Tensor:
    return tf.strings.regex_replace(symbols, "^[(/)]", "")


def _depths(
    labels: tf.Tensor, is_open: tf.Tensor, is_close: tf.Tensor
) -> tf.Tensor:
    """Returns how many constituents are open before and after each symbol.

    A closing bracket closes those from the last one with its label on.

    Args:
        labels: String tensor `[N, T]`.
        is_open: Boolean `[N, T]`.
        is_close: Boolean `[N, T]`.

    Returns:
        Integers `[N, T + 1]`, beginning with 0.
    """
    shape = tf.shape(labels)
    ids = tf.reshape(tf.unique(tf.reshape(labels, [-1])).idx, shape)
    level = tf.range(shape[1])
    depths = tf.TensorArray(tf.int32, shape[1] + 1)

    def step(t, depth, opened, depths):
        label = ids[:, t, None]
        is_next = is_open[:, t, None] & (level == depth[:, None])
        is_match = (opened == label) & (level < depth[:, None])
        last = tf.reduce_max(tf.where(is_match, level, -1), axis=1)
        closed = tf.where(is_close[:, t] & (last >= 0), last, depth)
        depth = tf.where(is_open[:, t], depth + 1, closed)
        opened = tf.where(is_next, label, opened)
        return t + 1, depth, opened, depths.write(t + 1, depth)

    start = tf.zeros(shape[:1], tf.int32)
    *_, depths = tf.while_loop(
        lambda t, *_: t < shape[1],
        step,
        (0, start, tf.zeros_like(ids), depths.write(0, start)),
    )
    return tf.transpose(depths.stack())


def _counterparts(is_open: tf.Tensor, is_close: tf.Tensor) -> tf.Tensor:
    """Returns where the bracket is that belongs to each bracket, `[N, L]`.

    Args:
        is_open: Boolean `[N, L]`; every bracket has its counterpart.
        is_close: Boolean `[N, L]`.

    Returns:
        Integers `[N, L]`, without meaning where there is no bracket.
    """
    opened = tf.cumsum(tf.cast(is_open, tf.int32), axis=1)
    closed = tf.cumsum(tf.cast(is_close, tf.int32), axis=1, exclusive=True)
    length = tf.shape(is_open)[1]
    # Opening and closing brackets of the same depth alternate.
    depth = tf.where(is_open | is_close, opened - closed, length + 1)
    order = tf.argsort(depth, axis=1, stable=True)
    neighbour = tf.bitwise.bitwise_xor(tf.argsort(order, axis=1), 1)
    neighbour = tf.minimum(neighbour, length - 1)
    return tf.gather(order, neighbour, batch_dims=1)
