"""Pairs of texts to batches of ids: tokenize, drop, bucket by length, pad.

Letters: `B` pairs in a batch, `L` the bucket's length.
"""

import dataclasses
import math

import tensorflow as tf

from keras_transformer.errors import InputError
from keras_transformer.text.tokenizer import Tokenizer

# Lines that are tokenized by one call of the op; more gain nothing.
_CHUNK = 1024

# The bucket lengths: each about 15% above the one before. Measured with a
# vocabulary of 8k, 12% to 14% of a batch is padding. Ratio 1.25 gives 16%,
# and 1.1 gives 10% for half as many shapes again.
_SHORTEST_BUCKET = 8
_BUCKET_RATIO = 1.15


@dataclasses.dataclass(frozen=True)
class Survey:
    """What training will see of a split, and what it will not.

    Attributes:
        pairs: Pairs that are kept.
        dropped_long: Pairs dropped because a side is longer than
            `max_length` tokens, its end token included.
        dropped_empty: Pairs dropped because a side has no token.
        source_tokens: Source tokens of the kept pairs, end tokens included.
        target_tokens: Target tokens of the kept pairs, end tokens included.
        longest: Tokens of the longest text, dropped or not, its end token
            included.
    """

    pairs: int
    dropped_long: int
    dropped_empty: int
    source_tokens: int
    target_tokens: int
    longest: int


def bucket_lengths(max_length: int) -> list[int]:
    """Returns the lengths that batches have, the last one `max_length`.

    They grow geometrically from 8, about 15% a step: 8, 10, 12, 14, 17, 20,
    23, 27, 32, ...
    """
    lengths = [min(_SHORTEST_BUCKET, max_length)]
    while lengths[-1] < max_length:
        longer = math.ceil(lengths[-1] * _BUCKET_RATIO)
        lengths.append(min(longer, max_length))
    return lengths


def survey(
    pairs: tf.data.Dataset, tokenizer: Tokenizer, max_length: int
) -> Survey:
    """Counts, in one pass, what is kept and what is dropped.

    Args:
        pairs: Finite dataset of (source, target) scalar strings.
        tokenizer: The `Tokenizer`.
        max_length: Most tokens of a text, its end token included.
    """

    def count(source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        # [N] each, without end tokens.
        s = tokenizer.tokenize(source).row_lengths() + 1
        t = tokenizer.tokenize(target).row_lengths() + 1
        keep, empty = _sort_out(s, t, max_length)
        longest = tf.reduce_max(tf.maximum(s, t))
        kept = tf.cast(keep, tf.int64)
        counts = [
            tf.reduce_sum(kept),
            tf.reduce_sum(tf.cast(~keep & ~empty, tf.int64)),
            tf.reduce_sum(tf.cast(empty, tf.int64)),
            tf.reduce_sum(kept * s),
            tf.reduce_sum(kept * t),
        ]
        return tf.stack(counts), longest

    chunks = pairs.batch(_CHUNK).map(count, tf.data.AUTOTUNE)
    counts, longest = chunks.reduce(
        (tf.zeros([5], tf.int64), tf.constant(0, tf.int64)),
        lambda so_far, chunk: (
            so_far[0] + chunk[0],
            tf.maximum(so_far[1], chunk[1]),
        ),
    )
    return Survey(*counts.numpy().tolist(), longest=int(longest))


def training_batches(
    pairs: tf.data.Dataset,
    tokenizer: Tokenizer,
    *,
    batch_tokens: int,
    max_length: int,
    seed: int,
    shuffle_buffer: int = 200_000,
) -> tf.data.Dataset:
    """Returns endless shuffled batches of pairs of similar length.

    Both sides of a batch are padded to the length of its bucket, the least
    of `bucket_lengths(max_length)` that holds the longer side; so there is
    one shape a bucket. Batches are always full: what a pass leaves over in a
    bucket comes first in that bucket's next batch. In each bucket every pair
    comes once before any comes again. Pairs with an empty side or one longer
    than `max_length` are dropped: `survey` counts them. If nothing is left,
    the dataset is empty.

    Args:
        pairs: Finite dataset of (source, target) scalar strings.
        tokenizer: The `Tokenizer`.
        batch_tokens: Most tokens of a batch, those of source and target and
            their padding counted: a bucket of length `L` has
            `batch_tokens // (2 * L)` pairs a batch.
        max_length: Most tokens of a text, its end token included.
        seed: The same seed gives the same batches; each pass has its own
            order.
        shuffle_buffer: Pairs held in memory to draw from. A longer corpus
            whose lines are sorted by kind should be shuffled beforehand.

    Returns:
        Dataset of `({"source": [B, L], "target": [B, L]}, labels [B, L])`,
        all int32: the source with its end token, the decoder's input from
        the start token on, and the same target, one step ahead, with its
        end token.

    Raises:
        InputError: If a pair of `max_length` exceeds `batch_tokens`.
    """
    _check_budget(batch_tokens, max_length)
    shuffled = pairs.shuffle(
        shuffle_buffer, seed=seed, reshuffle_each_iteration=True
    )
    # After the dropping: repeating a dataset from which everything is
    # dropped later would search it for ever.
    rows = _rows(shuffled, tokenizer, max_length).repeat()
    return _batches(rows, tokenizer, batch_tokens, max_length)


def evaluation_batches(
    pairs: tf.data.Dataset,
    tokenizer: Tokenizer,
    *,
    batch_tokens: int,
    max_length: int,
) -> tf.data.Dataset:
    """Returns one pass over the pairs, in batches as for training.

    No pair is lost but the empty and the too long; what is left over in a
    bucket comes at the end, in smaller batches. The batches are counted at
    once, in a pass of its own, so that Keras knows where they end. See
    `training_batches`.
    """
    _check_budget(batch_tokens, max_length)
    rows = _rows(pairs, tokenizer, max_length)
    batches = _batches(rows, tokenizer, batch_tokens, max_length)
    count = batches.reduce(tf.constant(0, tf.int64), lambda n, *_: n + 1)
    return batches.apply(tf.data.experimental.assert_cardinality(count))


def _check_budget(batch_tokens: int, max_length: int) -> None:
    if max_length < 2:
        raise InputError(
            "max_length must be at least 2, a token and the end token. "
            f"Received: max_length={max_length}"
        )
    if batch_tokens < 2 * max_length:
        raise InputError(
            "batch_tokens counts the tokens of source and target, so it must "
            f"be at least 2 * max_length = {2 * max_length}. Received: "
            f"batch_tokens={batch_tokens}, max_length={max_length}. Raise "
            "batch_tokens or lower max_length."
        )


def _sort_out(
    source: tf.Tensor, target: tf.Tensor, max_length: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns which pairs are kept and which have an empty side.

    Args:
        source: Tokens of each source, `[N]`, end token included.
        target: Tokens of each target, `[N]`, end token included.
        max_length: Most tokens of a text, its end token included.
    """
    empty = tf.minimum(source, target) < 2
    return ~empty & (tf.maximum(source, target) <= max_length), empty


def _rows(
    pairs: tf.data.Dataset, tokenizer: Tokenizer, max_length: int
) -> tf.data.Dataset:
    """Returns (bucket, source, labels) of each pair that is kept.

    The bucket is an int64 index into `bucket_lengths`; source and labels,
    with their end tokens, are padded to `[max_length]`: rows of one length
    unbatch and batch several times faster than ragged ones.
    """
    lengths = tf.constant(bucket_lengths(max_length), tf.int64)

    def encode(source: tf.Tensor, target: tf.Tensor) -> tuple:
        s, t = tokenizer.tokenize(source), tokenizer.tokenize(target)
        s_length, t_length = s.row_lengths() + 1, t.row_lengths() + 1
        keep, _ = _sort_out(s_length, t_length, max_length)
        bucket = tf.searchsorted(
            lengths, tf.maximum(s_length, t_length), out_type=tf.int64
        )
        return tuple(
            tf.boolean_mask(x, keep)
            for x in (bucket, end(s, s_length), end(t, t_length))
        )

    def end(ids: tf.RaggedTensor, length: tf.Tensor) -> tf.Tensor:
        # [N, max_length]; what is longer loses its end and is not kept.
        rows = ids.to_tensor(tokenizer.pad_id, shape=[None, max_length])
        place = tf.range(max_length, dtype=tf.int64) == length[:, None] - 1
        return tf.where(place, tokenizer.eos_id, rows)

    return pairs.batch(_CHUNK).map(encode, tf.data.AUTOTUNE).unbatch()


def _batches(
    rows: tf.data.Dataset,
    tokenizer: Tokenizer,
    batch_tokens: int,
    max_length: int,
) -> tf.data.Dataset:
    """Returns the batches of `training_batches` from the rows of `_rows`."""
    lengths = tf.constant(bucket_lengths(max_length), tf.int64)
    sizes = batch_tokens // (2 * lengths)

    def feed(source: tf.Tensor, labels: tf.Tensor) -> tuple:
        # [B, L], one step behind the labels; the end token falls out.
        start = tf.fill([tf.shape(labels)[0], 1], tokenizer.bos_id)
        behind = tf.concat([start, labels[:, :-1]], axis=1)
        is_token = labels != tokenizer.pad_id
        target = tf.where(is_token, behind, tokenizer.pad_id)
        return {"source": source, "target": target}, labels

    def batch(bucket: tf.Tensor, window: tf.data.Dataset) -> tf.data.Dataset:
        length = lengths[bucket]
        return window.batch(sizes[bucket]).map(
            lambda _, source, labels: feed(
                source[:, :length], labels[:, :length]
            )
        )

    return rows.group_by_window(
        key_func=lambda bucket, source, labels: bucket,
        reduce_func=batch,
        window_size_func=lambda bucket: sizes[bucket],
    ).prefetch(tf.data.AUTOTUNE)
