"""Batches of token ids in a globally shuffled order.

A pass over the corpus is a random permutation of all pairs, which is computed,
never stored, so that seeking is immediate. The next pairs of the permutation
form a pool, which is read in the order of the files; pools.py cuts it into
batches.
"""

import functools
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf

from keras_transformer.support.startup import available_cores
from keras_transformer.tasks import Task
from keras_transformer.text import Tokenizer
from keras_transformer.train.data import encoding, pools
from keras_transformer.train.data.encoding import TokenShard
from keras_transformer.train.data.reading import without_tuning

# Size of the pools in which pairs are sorted by length: 32 MiB per side.
_POOL_IDS = 2**23
_PREFETCHED = 8

# Rounds of the cipher that permutes the pairs. With the default of 4,
# successive places are correlated: 0.15 for two million pairs.
_ROUNDS = 16


def training_batches(
    pairs: Iterable[tuple[str, str]] | tf.data.Dataset,
    tokenizer: Tokenizer,
    *,
    batch_tokens: int,
    max_length: int,
    seed: int,
    task: Task | None = None,
) -> tf.data.Dataset:
    """Returns endless shuffled batches of pairs of similar length.

    Each pass over the corpus contains every pair once. Both sides of a batch
    are padded to one of `bucket_lengths(max_length)`, which keeps the number
    of shapes small. Nearly all batches are as full as `batch_tokens` allows.
    Pairs with an empty side or a side longer than `max_length` are dropped.

    This call tokenizes the pairs, and keeps their ids in memory.

    Args:
        pairs: Source and target texts, such as `corpus.pairs("train")`; or a
            finite dataset of such pairs of scalar strings.
        tokenizer: Tokenizer of both sides.
        batch_tokens: Maximum number of tokens in a batch, counting source,
            target and their padding: a batch of length `L` contains
            `batch_tokens // (2 * L)` pairs.
        max_length: Maximum number of tokens in a text, including its end
            token.
        seed: The same seed gives the same batches; each pass has its own
            order.
        task: The task. Default: translation.

    Returns:
        Dataset of `({"source": [B, L], "target": [B, L]}, labels [B, L])`,
        all int32: the source with its end token, the target with its start
        token as the input of the decoder, and the target with its end token.

    Raises:
        InputError: If a pair of `max_length` exceeds `batch_tokens`, or all
            pairs are dropped.
    """
    encoding.check_budget(batch_tokens, max_length)
    encoder = encoding.PairEncoder(tokenizer, max_length, task)
    shards = list(encoder.shards(pairs))
    encoder.statistics.check(max_length)
    order = BatchOrder(shards, batch_tokens, max_length, seed)
    return make_batches(PairIds(shards, tokenizer, max_length), order)


def evaluation_batches(
    pairs: Iterable[tuple[str, str]] | tf.data.Dataset,
    tokenizer: Tokenizer,
    *,
    batch_tokens: int,
    max_length: int,
    task: Task | None = None,
) -> tf.data.Dataset:
    """Returns one pass over the pairs, in batches as for training.

    The dataset knows its number of batches, which may be 0. For arguments,
    result and errors see `training_batches`.
    """
    encoding.check_budget(batch_tokens, max_length)
    encoder = encoding.PairEncoder(tokenizer, max_length, task)
    shards = list(encoder.shards(pairs))
    return one_pass(shards, tokenizer, batch_tokens, max_length)


def one_pass(
    shards: Sequence[TokenShard],
    tokenizer: Tokenizer,
    batch_tokens: int,
    max_length: int,
) -> tf.data.Dataset:
    """Returns the batches of `evaluation_batches` from ids."""
    order = BatchOrder(shards, batch_tokens, max_length)
    return make_batches(PairIds(shards, tokenizer, max_length), order)


class PairIds:
    """Token ids of pairs without overlong texts, as tensors."""

    def __init__(
        self,
        shards: Sequence[TokenShard],
        tokenizer: Tokenizer,
        max_length: int,
    ) -> None:
        self.tokenizer = tokenizer
        self.max_length = max_length
        with tf.device("/CPU:0"):
            self._shards = [tuple(map(_as_tensor, shard)) for shard in shards]
        self._first_pairs = np.cumsum([0, *(shard.pairs for shard in shards)])

    def read(self, places: tf.Tensor) -> list[tf.Tensor]:
        """Returns sources and targets, int32 `[P, max_length]` each.

        `places` are ascending indices of pairs over all shards, `[P]`.
        """
        tokenizer, sides = self.tokenizer, []
        bounds = tf.searchsorted(places, self._first_pairs)  # [shards + 1]
        end_ids = tokenizer.source_eos_id, tokenizer.eos_id
        for side, eos_id in enumerate(end_ids):
            parts = []
            for number, (ids, offsets) in enumerate(self._shards):
                texts = tf.RaggedTensor.from_row_splits(
                    ids(), offsets(), validate=False
                )
                own = places[bounds[number] : bounds[number + 1]]
                own -= self._first_pairs[number]
                parts.append(tf.gather(texts, 2 * own + side))
            rows = tf.cast(tf.concat(parts, axis=0), tf.int32)
            rows = rows.with_row_splits_dtype(tf.int64)
            special = tokenizer.pad_id, eos_id
            sides.append(pools.padded_rows(rows, *special, self.max_length))
        return sides


class BatchOrder:
    """The pairs of each batch, in all passes over a corpus.

    A position in this order is `(pass, batches)`: the number of the pass,
    counted from 0, and the number of its batches that are done.
    """

    def __init__(
        self,
        shards: Sequence[TokenShard],  # only their lengths are read
        batch_tokens: int,  # at least two of `max_length`
        max_length: int,
        seed: int | None = None,  # None: one pass, which is not shuffled
        worker_share: tuple[int, int] = (0, 1),  # (index, count of workers)
        # Number of pairs and weight of each part of the corpus.
        parts: Sequence[tuple[int, float]] = (),
    ) -> None:
        self.batch_tokens = batch_tokens
        self.max_length = max_length
        self.seed = seed
        self.worker_share = worker_share
        # Tokens of each pair's longer side, usually in one or two bytes.
        dtype = np.min_scalar_type(max_length)
        sides = (np.diff(shard.offsets).reshape(-1, 2) + 1 for shard in shards)
        lengths = np.concatenate([s.max(axis=1).astype(dtype) for s in sides])
        counts = [pairs for pairs, _ in parts] or [len(lengths)]
        # Number of pairs that a pass reads from each part.
        sizes = [max(round(pairs * weight), 1) for pairs, weight in parts]
        sizes = sizes or counts
        index, count = worker_share
        self._num_places = len(range(index, sum(sizes), count))
        with tf.device("/CPU:0"):
            self._lengths = tf.constant(lengths)
            self._parts = tf.constant([counts, sizes], tf.int64)
        self._pool_size = max(_POOL_IDS // max_length, 1)
        self.num_pools = -(-self._num_places // self._pool_size)
        self._counts: dict[int, np.ndarray] = {}  # by pass

    def advance(
        self, position: tuple[int, int], batches: int
    ) -> tuple[int, int]:
        """Returns the position after a number of further batches."""
        number, done = position
        done += batches
        while done > (size := int(self.count_batches(number).sum())):
            number, done = number + 1, done - size
        return number, done

    def seek(self, position: tuple[int, int]) -> tuple[int, int]:
        """Returns the pool of a position, and the number of its batches done.

        Pools are counted over all passes. A position behind the end of a pass
        is in the first pool of the next one.
        """
        number, done = position
        first = number * self.num_pools
        if not done:
            return first, 0
        ends = np.cumsum(self.count_batches(number))
        pool = int(np.searchsorted(ends, done, side="right"))
        return first + pool, done - (int(ends[pool - 1]) if pool else 0)

    @tf.autograph.experimental.do_not_convert  # conversion takes seconds
    def count_batches(self, number: int) -> np.ndarray:
        """Returns the number of batches in each pool of a pass, `[pools]`."""
        if number not in self._counts:
            counts = tf.data.Dataset.range(self.num_pools).map(
                lambda pool: tf.shape(self._cut(number, pool)[-1])[0],
                available_cores(),
            )
            counts = list(without_tuning(counts).as_numpy_iterator())
            self._counts[number] = np.array(counts, np.int64)
        return self._counts[number]

    def pool(self, pool: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Returns the pairs of a pool as places in the corpus, `[P]`.

        The results of `cut_pool` follow, with the batches in random order.
        """
        number = pool // self.num_pools  # of the pass
        within = pool % self.num_pools
        places, longest_first, padded, cuts = self._cut(number, within)
        if self.seed is not None:
            seed = [tf.cast(self._key(number)[0], tf.int64), within]
            cuts = tf.random.experimental.stateless_shuffle(cuts, seed=seed)
        return places, longest_first, padded, cuts

    def _cut(self, number: int | tf.Tensor, pool: tf.Tensor) -> tuple:
        places = self._draw(number, pool)
        lengths = tf.cast(tf.gather(self._lengths, places), tf.int64)
        cut = pools.cut_pool(lengths, self.batch_tokens, self.max_length)
        return places, *cut

    def _draw(self, number: int | tf.Tensor, pool: tf.Tensor) -> tf.Tensor:
        """Returns the pairs of a pool as places in the corpus, `[P]`."""
        size, first = self._num_places, pool * self._pool_size
        places = tf.range(first, tf.minimum(first + self._pool_size, size))
        if self.seed is not None:
            key = self._key(number)
            places = tf.random_index_shuffle(
                places, key, size - 1, rounds=_ROUNDS
            )
        index, count = self.worker_share
        return self._pairs_at(number, index + count * places)

    def _pairs_at(
        self, number: int | tf.Tensor, places: tf.Tensor
    ) -> tf.Tensor:
        """Returns the pairs at places of a pass.

        Each pass continues in a part where the previous one ended.
        """
        counts, sizes = tf.unstack(self._parts)
        part = tf.searchsorted(tf.cumsum(sizes), places, side="right")
        size = tf.gather(sizes, part)
        within = places - tf.gather(tf.cumsum(sizes, exclusive=True), part)
        within = (tf.cast(number, tf.int64) * size + within) % tf.gather(
            counts, part
        )
        return tf.gather(tf.cumsum(counts, exclusive=True), part) + within

    def _key(self, number: int | tf.Tensor) -> tf.Tensor:
        """Returns the key of the permutation of a pass, uint32 `[3]`."""
        return tf.random.stateless_uniform(
            [3], [self.seed, number], minval=None, maxval=None, dtype=tf.uint32
        )


@tf.autograph.experimental.do_not_convert
def make_batches(
    pairs: PairIds, order: BatchOrder, start: tuple[int, int] = (0, 0)
) -> tf.data.Dataset:
    """Returns the batches of pairs in an order, from a position on.

    It calls no Python: a thread of `tf.data` that waits for Python would keep
    the process from exiting.
    """
    first, done = order.seek(start)
    end = order.num_pools if order.seed is None else 2**62
    batches = (
        tf.data.Dataset.range(first, end)
        .map(functools.partial(_read_pool, pairs, order))
        .prefetch(1)  # prepares a pool while the previous one is in use
        .flat_map(functools.partial(_batches_of_pool, pairs.tokenizer))
        .skip(done)
    )
    if order.seed is None:
        size = int(order.count_batches(0).sum())
        batches = batches.apply(tf.data.experimental.assert_cardinality(size))
    return without_tuning(batches).prefetch(_PREFETCHED)


def _read_pool(
    pairs: PairIds, order: BatchOrder, pool: tf.Tensor
) -> tuple[tf.Tensor, ...]:
    places, longest_first, padded, cuts = order.pool(pool)
    # Read in the order of the files.
    forwards = tf.argsort(places)
    source, labels = pairs.read(tf.gather(places, forwards))
    rows = tf.gather(tf.argsort(forwards), longest_first)
    return source, labels, rows, padded, cuts


def _batches_of_pool(
    tokenizer: Tokenizer,
    source: tf.Tensor,  # [P, max_length]
    labels: tf.Tensor,  # [P, max_length]
    rows: tf.Tensor,  # from the longest down, [P]
    padded: tf.Tensor,  # padded length of each of `rows`, [P]
    cuts: tf.Tensor,  # begin and end of each batch in `rows`, [batches, 2]
) -> tf.data.Dataset:
    def gather_batch(cut: tf.Tensor) -> tuple:
        chosen, length = rows[cut[0] : cut[1]], padded[cut[0]]
        sides = (tf.gather(x, chosen)[:, :length] for x in (source, labels))
        return pools.make_batch(*sides, tokenizer)

    return tf.data.Dataset.from_tensor_slices(cuts).map(gather_batch)


def _as_tensor(array: np.ndarray) -> Callable[[], tf.Tensor]:
    """Returns a function that returns an array as a tensor.

    A memory-mapped array is not copied: its memory becomes a variable, because
    `tf.constant` and the functions of `tf.data` would copy it. Other arrays may
    not be aligned as TensorFlow requires.
    """
    if not isinstance(array, np.memmap):
        tensor = tf.constant(array)
        return lambda: tensor
    tensor = tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    # Operations on variables other than `read_value` may copy.
    return tf.Variable(tensor, trainable=False).read_value
