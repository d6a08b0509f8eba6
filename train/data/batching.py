"""Batches of a pool of pairs: padded, sorted by length, cut, shuffled.

In shapes, `N` is the number of pairs of a pool, `B` that of a batch, and `L`
the padded length of a batch.
"""

import math

import tensorflow as tf

from keras_transformer.text.tokenizer import Tokenizer

# Each bucket length is about 15% above the previous one. Measured with a
# vocabulary of 8k, 12% to 14% of a batch is padding. A ratio of 1.25 gives
# 16%, and 1.1 gives 10% but half as many shapes again.
_SHORTEST_BUCKET = 8
_BUCKET_RATIO = 1.15


def bucket_lengths(max_length: int) -> list[int]:
    """Returns the padded lengths of batches; the last one is `max_length`.

    They grow geometrically by about 15%: 8, 10, 12, 14, 17, 20, 23, 27, ...
    """
    lengths = [min(_SHORTEST_BUCKET, max_length)]
    while lengths[-1] < max_length:
        longer = math.ceil(lengths[-1] * _BUCKET_RATIO)
        lengths.append(min(longer, max_length))
    return lengths


def filter_pairs(
    source: tf.Tensor, target: tf.Tensor, max_length: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns which pairs are kept and which have an empty side.

    Args:
        source: Number of tokens of each source, `[N]`, with the end token.
        target: Number of tokens of each target, `[N]`, with the end token.
        max_length: Maximum number of tokens in a text, with the end token.

    Returns:
        Two boolean tensors of shape `[N]`.
    """
    empty = tf.minimum(source, target) < 2
    return ~empty & (tf.maximum(source, target) <= max_length), empty


def padded_rows(
    source: tf.RaggedTensor,
    target: tf.RaggedTensor,
    tokenizer: Tokenizer,
    max_length: int,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns (lengths, source, labels) of the pairs that are kept.

    Rows of one length are several times faster to unbatch and batch than
    ragged rows.

    Args:
        source: int32 ids of the sources, `[N, (T)]`, without end tokens.
        target: int32 ids of the targets, `[N, (T)]`, without end tokens.
        tokenizer: Has the ids of padding and end.
        max_length: Maximum number of tokens in a text, with the end token.

    Returns:
        The length of the longer side of each pair, `[K]`; source and labels,
        with their end tokens, padded to `[K, max_length]`.
    """

    def add_end(ids: tf.RaggedTensor, length: tf.Tensor) -> tf.Tensor:
        # [N, max_length]. Longer rows lose their end, and are dropped below.
        rows = ids.to_tensor(tokenizer.pad_id, shape=[None, max_length])
        place = tf.range(max_length, dtype=tf.int64) == length[:, None] - 1
        return tf.where(place, tokenizer.eos_id, rows)

    s_length, t_length = source.row_lengths() + 1, target.row_lengths() + 1
    keep, _ = filter_pairs(s_length, t_length, max_length)
    return (
        tf.boolean_mask(tf.maximum(s_length, t_length), keep),
        tf.boolean_mask(add_end(source, s_length), keep),
        tf.boolean_mask(add_end(target, t_length), keep),
    )


def pool_batches(
    pool: tuple[tf.Tensor, tf.Tensor, tf.Tensor],
    tokenizer: Tokenizer,
    batch_tokens: int,
    max_length: int,
    seed: tf.Tensor | None = None,
) -> tf.data.Dataset:
    """Returns the batches of `training_batches` from one pool of rows.

    The rows are sorted by length, and cut into batches from the longest
    down. With a seed the batches are shuffled.
    """
    lengths, source, labels = pool
    order, padded, cuts = cut_pool(lengths, batch_tokens, max_length)
    if seed is not None:
        # The seed is that of the pass. The row of the longest text makes the
        # order differ from pool to pool.
        pool_seed = [seed, tf.cast(order[0], tf.int64)]
        cuts = tf.random.experimental.stateless_shuffle(cuts, seed=pool_seed)

    def gather_batch(cut: tf.Tensor) -> tuple:
        chosen, length = order[cut[0] : cut[1]], padded[cut[0]]
        batch_source = tf.gather(source, chosen)[:, :length]
        batch_labels = tf.gather(labels, chosen)[:, :length]
        # The decoder's input is the labels shifted right by one position. The
        # end token would become an input where padding follows it.
        start = tf.fill([tf.shape(batch_labels)[0], 1], tokenizer.bos_id)
        shifted = tf.concat([start, batch_labels[:, :-1]], axis=1)
        is_token = batch_labels != tokenizer.pad_id
        target = tf.where(is_token, shifted, tokenizer.pad_id)
        return {"source": batch_source, "target": target}, batch_labels

    return tf.data.Dataset.from_tensor_slices(cuts).map(gather_batch)


def cut_pool(
    lengths: tf.Tensor, batch_tokens: int, max_length: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns how the rows of a pool are cut into batches.

    Args:
        lengths: The length of each row, int64 `[N]`.
        batch_tokens: As in `training_batches`.
        max_length: As in `training_batches`.

    Returns:
        The rows from the longest down, `[N]`; the padded length of each of
        these, `[N]`; and where among them batches begin and end,
        `[batches, 2]`.
    """
    buckets = tf.constant(bucket_lengths(max_length), tf.int64)
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)
    bucket = tf.searchsorted(buckets, tf.gather(lengths, order))
    padded = tf.gather(buckets, bucket)
    return order, padded, _cut(padded, batch_tokens)


def _cut(lengths: tf.Tensor, batch_tokens: int) -> tf.Tensor:
    """Returns where batches begin and end, `[batches, 2]`.

    A batch takes as many rows as fit when all are padded like its first and
    longest one.

    Args:
        lengths: The padded length of each row, `[N]`, descending.
        batch_tokens: Maximum number of tokens of source and target, with
            padding.
    """
    rows = tf.size(lengths, tf.int64)

    def add(number: tf.Tensor, begin: tf.Tensor, ends: tf.TensorArray) -> tuple:
        size = batch_tokens // (2 * lengths[begin])
        end = tf.minimum(begin + size, rows)
        return number + 1, end, ends.write(number, end)

    _, _, ends = tf.while_loop(
        lambda number, begin, ends: begin < rows,
        add,
        (
            tf.constant(0),
            tf.constant(0, tf.int64),
            tf.TensorArray(tf.int64, size=0, dynamic_size=True),
        ),
    )
    ends = ends.stack()
    return tf.stack([tf.concat([[0], ends[:-1]], axis=0), ends], axis=1)
