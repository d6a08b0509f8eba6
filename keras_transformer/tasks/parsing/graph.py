"""Linearization, its inverse, and splitting into words, as TensorFlow graphs.

An exported parser contains them. `linearization.py` defines the symbols and
the repair rule, and computes the same from Python's trees.

Letters: B = batch, N = sequences, T = pieces, W = words, L = symbols after
the repair, M = words of all sentences.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from keras_transformer.tasks.parsing.linearization import UNKNOWN_TAG, WORD
from keras_transformer.tasks.parsing.trees import ROOT

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
    pieces: tf.Tensor,
    is_symbol: tf.Tensor,
    sentences: tf.Tensor,
    spell: Callable[[tf.Tensor], tf.Tensor],
) -> Restored:
    """Returns the trees of sequences, as `restore` does.

    Args:
        pieces: String tensor `[N, T]`, what a model wrote; "" for padding.
        is_symbol: Boolean `[N, T]`, True for brackets and tags. The others
            are the pieces of words.
        sentences: String tensor `[N]`, the words of each, from `join_words`.
            A sentence without words has no tree: its text is `(TOP)`.
        spell: Returns the joined pieces of words, string tensor `[M]`.
    """
    # One more column, so that T is at least 1.
    end = tf.fill([tf.size(sentences), 1], "")
    pieces = tf.concat([pieces, end], axis=1)
    is_symbol = tf.concat([is_symbol, end != ""], axis=1)
    words = tf.strings.split(sentences)  # [N, (W)]
    num_words = tf.cast(words.row_lengths(), tf.int32)
    is_open, is_tag, is_close = (is_symbol & _begins(pieces, x) for x in "(/)")

    # Rules 1 and 2: words are aligned.
    skipped, kept = _align(
        _written_words(pieces, is_symbol),
        is_tag,
        words.with_values(spell(words.values)).to_tensor(""),
        num_words,
    )

    # Rules 2 and 3: what cannot be there is dropped, and a closing bracket
    # takes the place of all that it closes.
    depth = _depths(_labels(pieces), is_open, is_close)
    before, after = depth[:, :-1], depth[:, 1:]
    count = tf.where(
        is_close, before - after, tf.cast(is_open | kept, tf.int32)
    )
    repaired = tf.reduce_any(is_symbol & (count != 1), axis=1)

    # Rules 2 and 4: what is missing is added.
    passed = tf.reduce_sum(skipped + tf.cast(kept, tf.int32), axis=1)
    last = tf.stack([num_words - passed, depth[:, -1]], axis=1)
    unknown = f"/{UNKNOWN_TAG}"
    count = _beside(skipped, count, last)
    symbols = _beside(
        tf.fill(tf.shape(pieces), unknown),
        pieces,
        tf.concat([tf.fill(tf.shape(end), unknown), end + ")"], axis=1),
    )
    added = tf.reduce_sum(skipped, axis=1) + tf.reduce_sum(last, axis=1)
    repaired |= added > 0
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


def _beside(first: tf.Tensor, second: tf.Tensor, last: tf.Tensor) -> tf.Tensor:
    """Returns two tensors `[N, T]` in turns, and `[N, 2]` after them."""
    pairs = tf.stack([first, second], axis=2)
    rows, columns = tf.unstack(tf.shape(first))
    return tf.concat([tf.reshape(pairs, [rows, 2 * columns]), last], axis=1)


def _written_words(pieces: tf.Tensor, is_symbol: tf.Tensor) -> tf.Tensor:
    """Returns what is written after the symbol before each piece, `[N, T]`."""
    rows, columns = tf.unstack(tf.shape(pieces))
    number = tf.cumsum(tf.cast(is_symbol, tf.int32), axis=1, exclusive=True)
    segments = number + tf.range(rows)[:, None] * columns
    words = tf.strings.unsorted_segment_join(
        tf.where(is_symbol, "", pieces), segments, rows * columns
    )
    return tf.gather(words, segments)


def _align(
    written: tf.Tensor,
    is_tag: tf.Tensor,
    words: tf.Tensor,
    num_words: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Aligns words as `alignment.align` does.

    Args:
        written: String tensor `[N, T]`.
        is_tag: Boolean `[N, T]`, True where a word is written.
        words: String tensor `[N, W]`, padded.
        num_words: Integers `[N]`.

    Returns:
        Integers `[N, T]`, the words that are missing before each written
        word; and boolean `[N, T]`, True where it stands for a word.
    """
    rows, columns = tf.unstack(tf.shape(written))
    j = tf.range(tf.shape(words)[1] + 1)
    far = columns + tf.shape(words)[1] + 1  # more than any distance
    exists = j <= num_words[:, None]

    def extend(i, below, may_stop, may_pair):
        other = tf.cast(written[:, i, None] != words, tf.int32)
        paired = tf.pad(below[:, 1:] + other, [[0, 0], [0, 1]])
        paired = tf.where(j < num_words[:, None], paired, far)
        best = tf.minimum(paired, below + 1)
        # Or some words are missing first.
        later = tf.where(j >= j[:, None], (best + j)[:, None], 2 * far)
        row = tf.reduce_min(later, axis=2) - j
        row = tf.where(is_tag[:, i, None] & exists, row, below)
        return (
            i - 1,
            row,
            may_stop.write(i, best == row),
            may_pair.write(i, paired == row),
        )

    below = tf.where(exists, num_words[:, None] - j, far)
    arrays = [tf.TensorArray(tf.bool, columns) for _ in range(2)]
    _, _, *arrays = tf.while_loop(
        lambda i, *_: i >= 0, extend, (columns - 1, below, *arrays)
    )
    may_stop, may_pair = (  # [T, N, W + 1]
        tf.ensure_shape(array.stack(), [None] * 3) for array in arrays
    )

    def take(i, start, skipped, kept):
        stops = may_stop[i] & (j >= start[:, None])
        stop = tf.argmax(tf.cast(stops, tf.int32), 1, tf.int32)
        is_kept = is_tag[:, i] & tf.gather(may_pair[i], stop, batch_dims=1)
        stop = tf.where(is_tag[:, i], stop, start)
        following = stop + tf.cast(is_kept, tf.int32)
        return (
            i + 1,
            tf.ensure_shape(following, start.shape),
            skipped.write(i, stop - start),
            kept.write(i, is_kept),
        )

    arrays = [tf.TensorArray(dtype, columns) for dtype in (tf.int32, tf.bool)]
    _, _, *arrays = tf.while_loop(
        lambda i, *_: i < columns,
        take,
        (0, tf.zeros([rows], tf.int32), *arrays),
    )
    skipped, kept = (
        tf.ensure_shape(tf.transpose(array.stack()), written.shape)
        for array in arrays
    )
    return skipped, kept


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
