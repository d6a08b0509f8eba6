"""Pairs of texts to batches of ids: tokenize, drop, bucket by length, pad.

Letters: `B` pairs in a batch, `L` the bucket's length.
"""

import math

import tensorflow as tf

from keras_transformer.errors import InputError
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.train.data.parallel import CHUNK, PARALLEL

# Rows that are sorted by length together: 32 MiB of ids a side.
_POOL_IDS = 2**23
_PREFETCHED = 8

# The bucket lengths: each about 15% above the one before. Measured with a
# vocabulary of 8k, 12% to 14% of a batch is padding. Ratio 1.25 gives 16%,
# and 1.1 gives 10% for half as many shapes again.
_SHORTEST_BUCKET = 8
_BUCKET_RATIO = 1.15


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


def training_batches(
    pairs: tf.data.Dataset,
    tokenizer: Tokenizer,
    *,
    batch_tokens: int,
    max_length: int,
    seed: int,
    shuffle_buffer: int = 100_000,
) -> tf.data.Dataset:
    """Returns endless shuffled batches of pairs of similar length.

    In a pass over the corpus every pair comes once. Both sides of a batch
    are padded to one of `bucket_lengths(max_length)`, so that there are few
    shapes. Batches are as full as `batch_tokens` allows, but for one in some
    tens of thousands of pairs. Pairs with an empty side or one longer than
    `max_length` are dropped: `survey` counts them.

    Args:
        pairs: Finite dataset of (source, target) scalar strings.
        tokenizer: The `Tokenizer`.
        batch_tokens: Most tokens of a batch, those of source and target and
            their padding counted: a batch of length `L` has
            `batch_tokens // (2 * L)` pairs.
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
        InputError: If a pair of `max_length` exceeds `batch_tokens`, or no
            pair is left.
    """
    stream = training_stream(
        pairs,
        tokenizer,
        batch_tokens=batch_tokens,
        max_length=max_length,
        seed=seed,
        shuffle_buffer=shuffle_buffer,
    )
    return stream.map(lambda batch, position: batch)


def training_stream(
    pairs: tf.data.Dataset,
    tokenizer: Tokenizer,
    *,
    batch_tokens: int,
    max_length: int,
    seed: int,
    shuffle_buffer: int = 100_000,
    start: tuple[int, int] = (0, 0),
) -> tf.data.Dataset:
    """Returns the batches of `training_batches`, each with what follows it.

    Args:
        pairs: As in `training_batches`.
        tokenizer: As in `training_batches`.
        batch_tokens: As in `training_batches`.
        max_length: As in `training_batches`.
        seed: As in `training_batches`.
        shuffle_buffer: As in `training_batches`.
        start: Where to begin: a position that came with a batch. The cost
            is that of reading the pass up to there.

    Returns:
        Dataset of `(batch, position)`; the position, int64 `[2]`, is the
        number of a pass and how many of its batches are done.

    Raises:
        InputError: As `training_batches`.
    """
    check_budget(batch_tokens, max_length)
    # Endless passes over nothing would be searched for ever.
    if not any(True for _ in _rows(pairs, tokenizer, max_length).take(1)):
        raise InputError(
            "No pair is left to train on: each has an empty side or more "
            f"tokens than max_length. Received: max_length={max_length}"
        )

    def pools_of_pass(number: tf.Tensor) -> tf.data.Dataset:
        own = tf.random.stateless_uniform(
            [], [seed, number], maxval=2**31 - 1, dtype=tf.int64
        )
        # Of this function's graph: the order hangs on nothing but `seed`.
        # Beside a global seed of 0 `shuffle` would not take a tensor.
        tf.compat.v1.set_random_seed(1)
        shuffled = pairs.shuffle(shuffle_buffer, seed=own)
        pools = _pools(_rows(shuffled, tokenizer, max_length), max_length)
        return pools.map(lambda *pool: (number, own, pool))

    def batches_of(
        number: tf.Tensor, own: tf.Tensor, pool: tuple
    ) -> tf.data.Dataset:
        batches = _batches(pool, tokenizer, batch_tokens, max_length, own)
        return batches.map(lambda *batch: (number, batch))

    def count(before: tf.Tensor, numbered: tuple) -> tuple:
        number, batch = numbered
        done = tf.where(number == before[0], before[1] + 1, 1)
        position = tf.stack([number, done])
        return position, (batch, position)

    first, done = start
    batches = (
        tf.data.Dataset.range(first, 2**31)
        .flat_map(pools_of_pass)
        .prefetch(1)  # while the batches of a pool are trained on
        .flat_map(batches_of)
        .scan(tf.constant([first, 0], tf.int64), count)
    )
    return batches.skip(done).prefetch(_PREFETCHED)


def evaluation_batches(
    pairs: tf.data.Dataset,
    tokenizer: Tokenizer,
    *,
    batch_tokens: int,
    max_length: int,
) -> tf.data.Dataset:
    """Returns one pass over the pairs, in batches as for training.

    No pair is lost but the empty and the too long. The batches are counted
    at once, in a pass of its own, so that Keras knows where they end. See
    `training_batches`.
    """
    check_budget(batch_tokens, max_length)
    pools = _pools(_rows(pairs, tokenizer, max_length), max_length)
    batches = pools.flat_map(
        lambda *pool: _batches(pool, tokenizer, batch_tokens, max_length)
    )
    count = batches.reduce(tf.constant(0, tf.int64), lambda n, *_: n + 1)
    batches = batches.apply(tf.data.experimental.assert_cardinality(count))
    return batches.prefetch(_PREFETCHED)


def check_budget(batch_tokens: int, max_length: int, workers: int = 1) -> None:
    """Raises InputError if a pair of `max_length` exceeds a worker's batch."""
    if max_length < 2:
        raise InputError(
            "max_length must be at least 2, a token and the end token. "
            f"Received: max_length={max_length}"
        )
    least = 2 * max_length * workers
    if batch_tokens < least:
        of_each = f" for each of {workers} workers" if workers > 1 else ""
        raise InputError(
            "batch_tokens counts the tokens of source and target, so it must "
            f"be at least 2 * max_length{of_each} = {least}. Received: "
            f"batch_tokens={batch_tokens}, max_length={max_length}. Raise "
            "batch_tokens or lower max_length."
        )


def filter_pairs(
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
    """Returns (length, source, labels) of each pair that is kept.

    The length is that of the longer side; source and labels, with their end
    tokens, are padded to `[max_length]`: rows of one length unbatch and
    batch several times faster than ragged ones.
    """

    def encode(source: tf.Tensor, target: tf.Tensor) -> tuple:
        s, t = tokenizer.tokenize(source), tokenizer.tokenize(target)
        s_length, t_length = s.row_lengths() + 1, t.row_lengths() + 1
        keep, _ = filter_pairs(s_length, t_length, max_length)
        longer = tf.maximum(s_length, t_length)
        return tuple(
            tf.boolean_mask(x, keep)
            for x in (longer, end(s, s_length), end(t, t_length))
        )

    def end(ids: tf.RaggedTensor, length: tf.Tensor) -> tf.Tensor:
        # [N, max_length]; what is longer loses its end and is not kept.
        rows = ids.to_tensor(tokenizer.pad_id, shape=[None, max_length])
        place = tf.range(max_length, dtype=tf.int64) == length[:, None] - 1
        return tf.where(place, tokenizer.eos_id, rows)

    return pairs.batch(CHUNK).map(encode, PARALLEL).unbatch()


def _pools(rows: tf.data.Dataset, max_length: int) -> tf.data.Dataset:
    """Returns the rows of `_rows` in pools that fit into memory."""
    return rows.batch(max(_POOL_IDS // max_length, 1))


def _batches(
    pool: tuple[tf.Tensor, tf.Tensor, tf.Tensor],
    tokenizer: Tokenizer,
    batch_tokens: int,
    max_length: int,
    seed: tf.Tensor | None = None,
) -> tf.data.Dataset:
    """Returns the batches of `training_batches` from a pool of rows.

    The rows are sorted by length, and cut into batches from the longest
    down. With a seed the batches are shuffled.
    """
    lengths, source, labels = pool
    buckets = tf.constant(bucket_lengths(max_length), tf.int64)
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)
    bucket = tf.searchsorted(buckets, tf.gather(lengths, order))
    padded = tf.gather(buckets, bucket)
    cuts = _cut(padded, batch_tokens)
    if seed is not None:
        # By the pool's longest text too: pools do not shuffle alike.
        pair = [seed, tf.cast(order[0], tf.int64)]
        cuts = tf.random.experimental.stateless_shuffle(cuts, seed=pair)

    def batch(cut: tf.Tensor) -> tuple:
        chosen, length = order[cut[0] : cut[1]], padded[cut[0]]
        return feed(
            tf.gather(source, chosen)[:, :length],
            tf.gather(labels, chosen)[:, :length],
        )

    def feed(source: tf.Tensor, labels: tf.Tensor) -> tuple:
        # [B, L], one step behind the labels; the end token falls out.
        start = tf.fill([tf.shape(labels)[0], 1], tokenizer.bos_id)
        behind = tf.concat([start, labels[:, :-1]], axis=1)
        is_token = labels != tokenizer.pad_id
        target = tf.where(is_token, behind, tokenizer.pad_id)
        return {"source": source, "target": target}, labels

    return tf.data.Dataset.from_tensor_slices(cuts).map(batch)


def _cut(lengths: tf.Tensor, batch_tokens: int) -> tf.Tensor:
    """Returns where batches begin and end, `[batches, 2]`.

    A batch takes as many rows as fit, all padded like its longest, the first.

    Args:
        lengths: The padded length of each row, `[N]`, descending.
        batch_tokens: Most tokens of source and target, padding included.
    """
    rows = tf.size(lengths, tf.int64)

    def add(number: tf.Tensor, begin: tf.Tensor, ends: tf.TensorArray) -> tuple:
        size = batch_tokens // (2 * lengths[begin])
        after = tf.minimum(begin + size, rows)
        return number + 1, after, ends.write(number, after)

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
