"""What a pass over the pairs of a split tells before training."""

import dataclasses

import tensorflow as tf

from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.train.data.parallel import CHUNK, PARALLEL
from keras_transformer.train.data.pipeline import filter_pairs


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
        keep, empty = filter_pairs(s, t, max_length)
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

    chunks = pairs.batch(CHUNK).map(count, PARALLEL)
    counts, longest = chunks.reduce(
        (tf.zeros([5], tf.int64), tf.constant(0, tf.int64)),
        lambda so_far, chunk: (
            so_far[0] + chunk[0],
            tf.maximum(so_far[1], chunk[1]),
        ),
    )
    return Survey(*counts.numpy().tolist(), longest=int(longest))


def checksum(*parts: tf.data.Dataset) -> int:
    """Returns 32 bits that tell other texts, or the same in another order.

    Args:
        *parts: Finite datasets of (source, target) scalar strings, whose
            order counts too.
    """

    def of_chunk(source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        hashes = tf.strings.to_hash_bucket_fast(source + "\t" + target, 2**31)
        places = tf.range(1, tf.size(hashes, tf.int64) + 1)
        return tf.reduce_sum(hashes * places)

    total = tf.constant(0, tf.int64)
    for pairs in parts:
        hashes = pairs.batch(CHUNK).map(of_chunk, PARALLEL)
        # Modulo 2^64.
        total = hashes.reduce(total, lambda before, new: before * 31 + new)
    return int(total) % 2**32
