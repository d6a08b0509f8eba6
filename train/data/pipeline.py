"""Batches of token ids from pairs of texts.

The stages: tokenize, drop, pool, sort by length, cut into batches, pad.
In shapes, `B` is the number of pairs of a batch and `L` its padded length.
"""

import math

import tensorflow as tf

from keras_transformer.errors import InputError
from keras_transformer.tasks import Task, TranslationTask
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.train.data.reading import NUM_PARALLEL_CALLS, READ_BATCH

SHUFFLE_BUFFER = 100_000

# Size of the pools in which pairs are sorted by length: 32 MiB per side.
_POOL_IDS = 2**23
_PREFETCHED = 8

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


def training_batches(
    pairs: tf.data.Dataset,
    tokenizer: Tokenizer,
    *,
    batch_tokens: int,
    max_length: int,
    seed: int,
    shuffle_buffer: int = SHUFFLE_BUFFER,
    task: Task | None = None,
) -> tf.data.Dataset:
    """Returns endless shuffled batches of pairs of similar length.

    Each pass over the corpus contains every pair once. Both sides of a batch
    are padded to one of `bucket_lengths(max_length)`, which keeps the number
    of shapes small. Batches are as full as `batch_tokens` allows, except for
    one in some tens of thousands of pairs. Pairs with an empty side or a side
    longer than `max_length` are dropped; `collect_statistics` counts them.

    Args:
        pairs: Finite dataset of (source, target) scalar strings.
        tokenizer: The `Tokenizer`.
        batch_tokens: Maximum number of tokens in a batch, counting source,
            target and their padding: a batch of length `L` has
            `batch_tokens // (2 * L)` pairs.
        max_length: Maximum number of tokens in a text, including its end
            token.
        seed: The same seed gives the same batches; each pass has its own
            order.
        shuffle_buffer: Number of pairs in memory that the next pair is drawn
            from. Shuffle a longer corpus beforehand if its lines are sorted.
        task: The task. Default: translation.

    Returns:
        Dataset of `({"source": [B, L], "target": [B, L]}, labels [B, L])`,
        all int32: the source with its end token, the target with its start
        token as the input of the decoder, and the target with its end token.

    Raises:
        InputError: If a pair of `max_length` exceeds `batch_tokens`, or no
            pair is left.
    """
    return TrainingStream(
        pairs,
        tokenizer,
        batch_tokens=batch_tokens,
        max_length=max_length,
        seed=seed,
        shuffle_buffer=shuffle_buffer,
        task=task,
    ).dataset


class TrainingStream:
    """The batches of `training_batches`, which can be resumed.

    A position in the stream is `(pass, batches)`: the number of a pass over
    the corpus, counted from 0, and how many of its batches are done.

    Args:
        pairs: As in `training_batches`.
        tokenizer: As in `training_batches`.
        batch_tokens: As in `training_batches`.
        max_length: As in `training_batches`.
        seed: As in `training_batches`.
        shuffle_buffer: As in `training_batches`.
        task: As in `training_batches`.
        start: The position of the first batch. Starting in the middle of a
            pass costs as much as reading the pass up to there.

    Attributes:
        dataset: The dataset that `training_batches` describes.

    Raises:
        InputError: As `training_batches`.
    """

    def __init__(
        self,
        pairs: tf.data.Dataset,
        tokenizer: Tokenizer,
        *,
        batch_tokens: int,
        max_length: int,
        seed: int,
        shuffle_buffer: int = SHUFFLE_BUFFER,
        task: Task | None = None,
        start: tuple[int, int] = (0, 0),
    ) -> None:
        check_budget(batch_tokens, max_length)
        task = task or TranslationTask()
        # Without any pair the search for the next pass would never end.
        if not list(_rows(pairs, tokenizer, max_length, task).take(1)):
            raise InputError(
                "No pair is left to train on: each has an empty side or more "
                f"tokens than max_length. Received: max_length={max_length}"
            )
        self._start = start
        # Maps each pass to the index of its first batch, where batches are
        # counted from the beginning of the first pass. It is a table, and not
        # a dictionary that a tf.numpy_function fills, because a thread that
        # waits for Python at exit would keep the process from ending.
        with tf.device("/CPU:0"):
            self._first_batches = tf.lookup.experimental.MutableHashTable(
                tf.int64, tf.int64, default_value=-1
            )

        def pools_of_pass(number: tf.Tensor) -> tf.data.Dataset:
            pass_seed = tf.random.stateless_uniform(
                [], [seed, number], maxval=2**31 - 1, dtype=tf.int64
            )
            # The order must depend on `seed` alone. `shuffle` combines its
            # seed with the graph's, and rejects a tensor if that is 0.
            tf.compat.v1.set_random_seed(1)
            shuffled = pairs.shuffle(shuffle_buffer, seed=pass_seed)
            rows = _rows(shuffled, tokenizer, max_length, task)
            pools = _pools(rows, max_length)
            return pools.map(lambda *pool: (number, pass_seed, pool))

        def batches_of_pool(
            number: tf.Tensor, pass_seed: tf.Tensor, pool: tuple
        ) -> tf.data.Dataset:
            batches = _batches(
                pool, tokenizer, batch_tokens, max_length, pass_seed
            )
            return batches.map(lambda *batch: (number, batch))

        first_pass, done = start
        batches = (
            tf.data.Dataset.range(first_pass, 2**31)
            .flat_map(pools_of_pass)
            .prefetch(1)  # prepares a pool while the previous one is in use
            .flat_map(batches_of_pool)
            .scan(tf.constant([first_pass, 0, 0], tf.int64), self._record_pass)
        )
        self.dataset = batches.skip(done).prefetch(_PREFETCHED)

    def position(self, batches: int) -> tuple[int, int]:
        """Returns the position after the first batches of the stream.

        It does not depend on how many more batches were prefetched, nor on
        how many iterators of `dataset` there are.

        Args:
            batches: Number of batches of this stream. An iterator must have
                returned them already.

        Returns:
            The position to give as `start` to a stream with the remaining
            batches.
        """
        if batches == 0:
            return self._start
        last = self._start[1] + batches - 1
        table = self._first_batches.export()
        passes, first_batches = (values.numpy().tolist() for values in table)
        # The last pass that starts at or before the last batch.
        first_batch, number = max(
            pair
            for pair in zip(first_batches, passes, strict=True)
            if pair[0] <= last
        )
        return number, last - first_batch + 1

    def _record_pass(self, state: tf.Tensor, numbered_batch: tuple) -> tuple:
        """Enters the pass of a batch into the table.

        Args:
            state: The previous batch's pass and that pass's first batch, and
                the index of this batch.
            numbered_batch: The pass of this batch, and the batch.

        Returns:
            The state for the next batch, and the batch.
        """
        number, batch = numbered_batch
        previous, first_batch, index = tf.unstack(state)
        first_batch = tf.where(number == previous, first_batch, index)
        self._first_batches.insert(number, first_batch)
        return tf.stack([number, first_batch, index + 1]), batch


def evaluation_batches(
    pairs: tf.data.Dataset,
    tokenizer: Tokenizer,
    *,
    batch_tokens: int,
    max_length: int,
    task: Task | None = None,
) -> tf.data.Dataset:
    """Returns one pass over the pairs, in batches as for training.

    Only empty and overlong pairs are dropped. The batches are counted in a
    pass of its own during this call, so that Keras knows their number. For
    arguments, result and errors see `training_batches`; no pair needs to be
    left.
    """
    check_budget(batch_tokens, max_length)
    rows = _rows(pairs, tokenizer, max_length, task or TranslationTask())
    pools = _pools(rows, max_length)
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
            "max_length must be at least 2, one token and the end token. "
            f"Received: max_length={max_length}"
        )
    minimum = 2 * max_length * workers
    if batch_tokens < minimum:
        per_worker = f" for each of {workers} workers" if workers > 1 else ""
        raise InputError(
            "batch_tokens counts the tokens of source and target, so it must "
            f"be at least 2 * max_length{per_worker} = {minimum}. Received: "
            f"batch_tokens={batch_tokens}, max_length={max_length}. Raise "
            "batch_tokens or lower max_length."
        )


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


def _rows(
    pairs: tf.data.Dataset,
    tokenizer: Tokenizer,
    max_length: int,
    task: Task,
) -> tf.data.Dataset:
    """Returns (length, source, labels) of each pair that is kept.

    The length is that of the longer side. Source and labels, with their end
    tokens, are padded to `[max_length]`: rows of one length are several times
    faster to unbatch and batch than ragged rows.
    """

    def add_end(ids: tf.RaggedTensor, length: tf.Tensor) -> tf.Tensor:
        # [N, max_length]. Longer rows lose their end, and are dropped below.
        rows = ids.to_tensor(tokenizer.pad_id, shape=[None, max_length])
        place = tf.range(max_length, dtype=tf.int64) == length[:, None] - 1
        return tf.where(place, tokenizer.eos_id, rows)

    def encode(source: tf.Tensor, target: tf.Tensor) -> tuple:
        s = tokenizer.tokenize(source)
        t = task.target_ids(tokenizer, target)
        s_length, t_length = s.row_lengths() + 1, t.row_lengths() + 1
        keep, _ = filter_pairs(s_length, t_length, max_length)
        longer = tf.maximum(s_length, t_length)
        return (
            tf.boolean_mask(longer, keep),
            tf.boolean_mask(add_end(s, s_length), keep),
            tf.boolean_mask(add_end(t, t_length), keep),
        )

    return pairs.batch(READ_BATCH).map(encode, NUM_PARALLEL_CALLS).unbatch()


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
    """Returns the batches of `training_batches` from one pool of rows.

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
