"""Batches of a prepared corpus, in an order that is global.

A pass is a random permutation of all pairs. It is computed where it is needed
and never stored, so that any place in it is found at once. The next pairs of
the permutation form a pool, whose batches batching.py makes.

A pool is read in the order of the files, from the first to the last. If the
page cache can hold the corpus, the first pool reads about all of it, front to
back, and the later ones find it in memory; if not, each pool reads it again.
"""

import numpy as np
import tensorflow as tf

from keras_transformer.support.errors import InputError
from keras_transformer.train.data.batching import cut_pool, padded_rows
from keras_transformer.train.data.pipeline import (
    BatchStream,
    check_budget,
    pool_size,
    seed_of_pass,
)
from keras_transformer.train.data.prepared import Prepared, rows_of_shard
from keras_transformer.train.data.reading import NUM_PARALLEL_CALLS

# Of the block cipher that permutes the pairs. With TensorFlow's default of 4
# the places of successive pairs are correlated (0.15 for 2 million pairs);
# from 8 on no test that was tried can tell them from a random permutation.
_ROUNDS = 16


class PreparedStream(BatchStream):
    """The batches of `training_batches` from a prepared corpus.

    Everything is an operation of TensorFlow: no thread of `tf.data` ever
    waits for Python.

    Args:
        prepared: The corpus.
        shard: `(index, count)`: the share of worker `index` of `count`
            workers, which is every `count`-th pair.
        batch_tokens: As in `training_batches`.
        seed: As in `training_batches`.
        start: The position of the first batch. Starting in the middle of a
            pass reads no ids before it, only the lengths of the pairs.

    Raises:
        InputError: If a pair of `max_length` exceeds `batch_tokens`, there
            are fewer pairs than workers, or a file is damaged.
    """

    def __init__(
        self,
        prepared: Prepared,
        shard: tuple[int, int] = (0, 1),
        *,
        batch_tokens: int,
        seed: int,
        start: tuple[int, int] = (0, 0),
    ) -> None:
        max_length = prepared.max_length
        check_budget(batch_tokens, max_length)
        index, count = shard
        lengths = prepared.lengths()[index::count]
        if not lengths.size:
            raise InputError(
                "Each worker needs a pair to train on. Received: "
                f"{sum(prepared.shards):,} pairs for {count} workers"
            )
        with tf.device("/CPU:0"):
            self._lengths = tf.constant(lengths)
        self._shards = prepared.variables()
        self._first_pairs = np.cumsum([0, *prepared.shards])
        self._pool_size = pool_size(max_length)
        self._pools = -(-lengths.size // self._pool_size)

        def read_pool(pass_seed: tf.Tensor, pool: tf.Tensor) -> tuple:
            drawn = index + count * self._draw(pass_seed, pool)
            return padded_rows(
                *self._read(drawn), prepared.tokenizer, max_length
            )

        self._sizes = dict(batch_tokens=batch_tokens, max_length=max_length)
        self._first_pool, skipped = self._seek(start, seed)

        def pools_of_pass(
            number: tf.Tensor, pass_seed: tf.Tensor
        ) -> tf.data.Dataset:
            first_pool = tf.constant(self._first_pool, tf.int64)
            first = tf.where(number == start[0], first_pool, 0)
            pools = tf.data.Dataset.range(first, self._pools)
            return pools.map(lambda pool: read_pool(pass_seed, pool))

        super().__init__(
            pools_of_pass,
            prepared.tokenizer,
            batch_tokens=batch_tokens,
            max_length=max_length,
            seed=seed,
            start=start,
            skipped=skipped,
        )

    def _draw(self, pass_seed: tf.Tensor, pool: tf.Tensor) -> tf.Tensor:
        """Returns the pairs of a pool as places among this worker's, `[P]`."""
        pairs = self._lengths.shape[0]
        first = pool * self._pool_size
        places = tf.range(first, tf.minimum(first + self._pool_size, pairs))
        return tf.random_index_shuffle(
            places, [pass_seed, 0, 0], pairs - 1, rounds=_ROUNDS
        )

    def _read(self, drawn: tf.Tensor) -> list[tf.RaggedTensor]:
        """Returns the ids of sources and targets, int32 `[P, (T)]` each.

        Args:
            drawn: Numbers of the pairs in the whole corpus, `[P]`.
        """
        order = tf.argsort(drawn)
        pairs = tf.gather(drawn, order)
        bounds = tf.searchsorted(pairs, self._first_pairs)  # [shards + 1]
        sides = []
        for side in range(2):
            parts = []
            for number, shard in enumerate(self._shards):
                rows = rows_of_shard(*shard)
                own = pairs[bounds[number] : bounds[number + 1]]
                own -= self._first_pairs[number]
                parts.append(tf.gather(rows, 2 * own + side))
            ids = tf.cast(tf.concat(parts, axis=0), tf.int32)
            ids = ids.with_row_splits_dtype(tf.int64)
            sides.append(tf.gather(ids, tf.argsort(order)))
        return sides

    def _seek(self, start: tuple[int, int], seed: int) -> tuple[int, int]:
        """Returns where a batch of a pass is.

        Args:
            start: The pass, and the number of batches before that batch.
            seed: As in `training_batches`.

        Returns:
            The pool of the batch, or that after the last if the pass has
            fewer batches, and the number of batches before that pool.
        """
        number, batches = start
        if not batches:
            return 0, 0
        pass_seed = seed_of_pass(seed, number)

        def count_batches(pool: tf.Tensor) -> tf.Tensor:
            lengths = tf.gather(self._lengths, self._draw(pass_seed, pool))
            *_, cuts = cut_pool(tf.cast(lengths, tf.int64), **self._sizes)
            return tf.shape(cuts)[0]

        counts = tf.data.Dataset.range(self._pools).map(
            count_batches, NUM_PARALLEL_CALLS
        )
        before = 0
        for pool, count in enumerate(counts.as_numpy_iterator()):
            if before + int(count) > batches:
                return pool, before
            before += int(count)
        return self._pools, before
