"""Batches of token ids from pairs of texts.

The stages: tokenize, drop, pool; batching.py makes the batches of a pool. In
shapes, `B` is the number of pairs of a batch and `L` its padded length.
"""

from collections.abc import Callable

import tensorflow as tf

from keras_transformer.support.errors import InputError
from keras_transformer.tasks import Task, TranslationTask
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.train.data.batching import padded_rows, pool_batches
from keras_transformer.train.data.reading import (
    NUM_PARALLEL_CALLS,
    READ_BATCH,
    without_tuning,
)

SHUFFLE_BUFFER = 100_000

# Size of the pools in which pairs are sorted by length: 32 MiB per side.
_POOL_IDS = 2**23
_PREFETCHED = 8


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


class BatchStream:
    """Endless batches of pools of rows, which can be resumed.

    A position in the stream is `(pass, batches)`: the number of a pass over
    the corpus, counted from 0, and how many of its batches are done.

    Args:
        pools_of_pass: Returns the dataset of the pools of a pass, from its
            number and its seed, two int64 scalars. A pool is what
            `padded_rows` returns.
        tokenizer: As in `training_batches`.
        batch_tokens: As in `training_batches`.
        max_length: As in `training_batches`.
        seed: As in `training_batches`.
        start: The position of the first batch.
        skipped: How many batches of the first pass precede the pools that
            `pools_of_pass` returns for it: those of whole pools before
            `start`.

    Attributes:
        dataset: The dataset that `training_batches` describes.
    """

    def __init__(
        self,
        pools_of_pass: Callable[[tf.Tensor, tf.Tensor], tf.data.Dataset],
        tokenizer: Tokenizer,
        *,
        batch_tokens: int,
        max_length: int,
        seed: int,
        start: tuple[int, int],
        skipped: int = 0,
    ) -> None:
        self._start = start
        # Maps each pass to the index of its first batch, where batches are
        # counted from the beginning of the first pass. It is a table, and not
        # a dictionary that a tf.numpy_function fills, because a thread that
        # waits for Python at exit would keep the process from ending.
        with tf.device("/CPU:0"):
            self._first_batches = tf.lookup.experimental.MutableHashTable(
                tf.int64, tf.int64, default_value=-1
            )

        def numbered_pools(number: tf.Tensor) -> tf.data.Dataset:
            pass_seed = seed_of_pass(seed, number)
            pools = pools_of_pass(number, pass_seed)
            return pools.map(lambda *pool: (number, pass_seed, pool))

        def batches_of_pool(
            number: tf.Tensor, pass_seed: tf.Tensor, pool: tuple
        ) -> tf.data.Dataset:
            batches = pool_batches(
                pool, tokenizer, batch_tokens, max_length, pass_seed
            )
            return batches.map(lambda *batch: (number, batch))

        first_pass, done = start
        state = tf.constant([first_pass, 0, skipped], tf.int64)
        batches = (
            tf.data.Dataset.range(first_pass, 2**31)
            .flat_map(numbered_pools)
            .prefetch(1)  # prepares a pool while the previous one is in use
            .flat_map(batches_of_pool)
            .scan(state, self._record_pass)
        )
        self.dataset = without_tuning(
            batches.skip(done - skipped).prefetch(_PREFETCHED)
        )

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


class TrainingStream(BatchStream):
    """The batches of `training_batches`, which can be resumed.

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

        def pools_of_pass(
            number: tf.Tensor, pass_seed: tf.Tensor
        ) -> tf.data.Dataset:
            # The order must depend on `seed` alone. `shuffle` combines its
            # seed with the graph's, and rejects a tensor if that is 0.
            tf.compat.v1.set_random_seed(1)
            shuffled = pairs.shuffle(shuffle_buffer, seed=pass_seed)
            rows = _rows(shuffled, tokenizer, max_length, task)
            return _pools(rows, max_length)

        super().__init__(
            pools_of_pass,
            tokenizer,
            batch_tokens=batch_tokens,
            max_length=max_length,
            seed=seed,
            start=start,
        )


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
    batches = without_tuning(
        pools.flat_map(
            lambda *pool: pool_batches(
                pool, tokenizer, batch_tokens, max_length
            )
        )
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


def _rows(
    pairs: tf.data.Dataset,
    tokenizer: Tokenizer,
    max_length: int,
    task: Task,
) -> tf.data.Dataset:
    """Returns the rows of `padded_rows`, one by one."""

    def encode(source: tf.Tensor, target: tf.Tensor) -> tuple:
        s = tokenizer.tokenize(source)
        t = task.target_ids(tokenizer, target)
        return padded_rows(s, t, tokenizer, max_length)

    return pairs.batch(READ_BATCH).map(encode, NUM_PARALLEL_CALLS).unbatch()


def pool_size(max_length: int) -> int:
    """Returns the number of rows of a pool, which fits into memory."""
    return max(_POOL_IDS // max_length, 1)


def seed_of_pass(seed: int, number: tf.Tensor) -> tf.Tensor:
    """Returns the seed of a pass, an int64 scalar, from its number."""
    return tf.random.stateless_uniform(
        [], [seed, number], maxval=2**31 - 1, dtype=tf.int64
    )


def _pools(rows: tf.data.Dataset, max_length: int) -> tf.data.Dataset:
    """Returns the rows of `_rows` in pools."""
    return rows.batch(pool_size(max_length))
