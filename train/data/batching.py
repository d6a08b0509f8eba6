"""Batches of the token ids of a corpus, in an order that is global.

A pass over the corpus is a random permutation of all pairs. It is computed
where it is needed and never stored, so seeking is immediate.
The next pairs of the permutation form a pool, whose batches pools.py makes.

A pool is read in the order of the files, from the first to the last. If the
page cache can hold the corpus, the first pool reads about all of it, front to
back, and the later ones find it in memory; if not, each pool reads it again.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf

from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import available_cores
from keras_transformer.tasks import Task
from keras_transformer.text import Vocabulary
from keras_transformer.train.data.encoding import (
    PairEncoder,
    TokenShard,
    check_max_length,
    check_pairs,
)
from keras_transformer.train.data.pools import (
    cut_pool,
    make_batch,
    padded_rows,
)
from keras_transformer.train.data.reading import without_tuning

# Size of the pools in which pairs are sorted by length: 32 MiB per side.
_POOL_IDS = 2**23
_PREFETCHED = 8

# Of the block cipher that permutes the pairs. With TensorFlow's default of 4
# the places of successive pairs are correlated (0.15 for 2 million pairs);
# from 8 on no test that was tried can tell them from a random permutation.
_ROUNDS = 16


def training_batches(
    pairs: Iterable[tuple[str, str]] | tf.data.Dataset,
    tokenizer: Vocabulary,
    *,
    batch_tokens: int,
    max_length: int,
    seed: int,
    task: Task | None = None,
) -> tf.data.Dataset:
    """Returns endless shuffled batches of pairs of similar length.

    Each pass over the corpus contains every pair once. Both sides of a batch
    are padded to one of `bucket_lengths(max_length)`, which keeps the number
    of shapes small. Batches are as full as `batch_tokens` allows, except for
    one in some tens of thousands of pairs. Pairs with an empty side or a side
    longer than `max_length` are dropped.

    The pairs are tokenized during this call, and their ids kept in memory.

    Args:
        pairs: Source and target texts, such as `corpus.pairs("train")`; or a
            finite dataset of such pairs of scalar strings.
        tokenizer: The `Vocabulary` of both sides, such as a `Tokenizer`.
        batch_tokens: Maximum number of tokens in a batch, counting source,
            target and their padding: a batch of length `L` has
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
        InputError: If a pair of `max_length` exceeds `batch_tokens`, or no
            pair is left.
    """
    check_budget(batch_tokens, max_length)
    encoder = PairEncoder(tokenizer, max_length, task)
    shards = list(encoder.shards(pairs))
    check_pairs(encoder.statistics.pairs, max_length)
    stream = BatchStream(shards, tokenizer, batch_tokens, max_length, seed=seed)
    return stream.dataset


def evaluation_batches(
    pairs: Iterable[tuple[str, str]] | tf.data.Dataset,
    tokenizer: Vocabulary,
    *,
    batch_tokens: int,
    max_length: int,
    task: Task | None = None,
) -> tf.data.Dataset:
    """Returns one pass over the pairs, in batches as for training.

    Only empty and overlong pairs are dropped. Keras knows the number of the
    batches. For arguments, result and errors see `training_batches`; no pair
    needs to be left.
    """
    check_budget(batch_tokens, max_length)
    shards = list(PairEncoder(tokenizer, max_length, task).shards(pairs))
    stream = BatchStream(shards, tokenizer, batch_tokens, max_length, seed=None)
    return stream.dataset


@dataclasses.dataclass(eq=False)
class BatchStream:
    """The batches of prepared pairs, endless or of one pass.

    A position in the stream is `(pass, batches)`: the number of a pass over
    the corpus, counted from 0, and how many of its batches are done.

    Everything is an operation of TensorFlow: no thread of `tf.data` ever
    waits for Python, which would keep the process from ending.

    `batch_tokens`, which are at least two of `max_length`, and `seed` are as
    in `training_batches`, which also describes the `dataset`. Starting in the
    middle of a pass reads no ids before it, only the lengths of the pairs.
    """

    shards: dataclasses.InitVar[Sequence[TokenShard]]  # without overlong texts
    tokenizer: Vocabulary
    batch_tokens: int
    max_length: int
    seed: int | None  # None: one pass, which is not shuffled
    worker_share: tuple[int, int] = (0, 1)  # (index, count of workers)
    start: tuple[int, int] = (0, 0)  # position of the first batch

    @tf.autograph.experimental.do_not_convert  # which takes seconds
    def __post_init__(self, shards: Sequence[TokenShard]) -> None:
        # Tokens of each pair's longer side, in one or two bytes as a rule.
        dtype = np.min_scalar_type(self.max_length)
        sides = (np.diff(shard.offsets).reshape(-1, 2) + 1 for shard in shards)
        lengths = np.concatenate([s.max(axis=1).astype(dtype) for s in sides])
        index, count = self.worker_share  # every count-th pair
        with tf.device("/CPU:0"):
            self._shards = [tuple(map(_as_tensor, shard)) for shard in shards]
            self._lengths = tf.constant(lengths[index::count])
        self._first_pairs = np.cumsum([0, *(s.pairs for s in shards)])
        self._pool_size = max(_POOL_IDS // self.max_length, 1)
        self._pools = -(-self._lengths.shape[0] // self._pool_size)
        self._counts: dict[int, np.ndarray] = {}  # of `_count_batches`

        pass_number, done = self.start
        pool, before = self._seek(pass_number, done)
        last = self._pools if self.seed is None else 2**62
        batches = (
            # The pools of all passes.
            tf.data.Dataset.range(pass_number * self._pools + pool, last)
            .map(self._read_pool)
            .prefetch(1)  # prepares a pool while the previous one is in use
            .flat_map(self._batches_of_pool)
            .skip(done - before)
        )
        if self.seed is None:
            size = int(self._count_batches(0).sum())
            known = tf.data.experimental.assert_cardinality(size)
            batches = batches.apply(known)
        self.dataset = without_tuning(batches).prefetch(_PREFETCHED)

    def position(self, batches: int) -> tuple[int, int]:
        """Returns the position after the first batches of the stream.

        It is computed: how many batches were prefetched does not matter.
        """
        pass_number, done = self.start
        done += batches
        while done > (size := int(self._count_batches(pass_number).sum())):
            pass_number, done = pass_number + 1, done - size
        return pass_number, done

    def _seek(self, pass_number: int, batches: int) -> tuple[int, int]:
        """Returns the pool of a position, and the batches before that pool.

        The pool is that after the last if the pass has fewer batches.
        """
        if not batches:
            return 0, 0
        ends = np.cumsum(self._count_batches(pass_number))
        pool = int(np.searchsorted(ends, batches, side="right"))
        return pool, int(ends[pool - 1]) if pool else 0

    @tf.autograph.experimental.do_not_convert
    def _count_batches(self, pass_number: int) -> np.ndarray:
        """Returns how many batches each pool of a pass has, `[pools]`."""
        if pass_number not in self._counts:
            counts = tf.data.Dataset.range(self._pools).map(
                lambda pool: tf.shape(self._cut(pass_number, pool)[-1])[0],
                available_cores(),
            )
            found = list(without_tuning(counts).as_numpy_iterator())
            self._counts[pass_number] = np.array(found, np.int64)
        return self._counts[pass_number]

    def _draw(self, pass_number: int | tf.Tensor, pool: tf.Tensor) -> tf.Tensor:
        """Returns the pairs of a pool as places among this worker's, `[P]`."""
        num_pairs = self._lengths.shape[0]
        first = pool * self._pool_size
        places = tf.range(first, tf.minimum(first + self._pool_size, num_pairs))
        if self.seed is None:
            return places
        return tf.random_index_shuffle(
            places, self._key(pass_number), num_pairs - 1, rounds=_ROUNDS
        )

    def _key(self, pass_number: int | tf.Tensor) -> tf.Tensor:
        """Returns the key of the permutation of a pass, uint32 `[3]`."""
        seed = [self.seed, pass_number]
        return tf.random.stateless_uniform(
            [3], seed, minval=None, maxval=None, dtype=tf.uint32
        )

    def _cut(self, pass_number: int | tf.Tensor, pool: tf.Tensor) -> tuple:
        """Returns what `_draw` does, and how `cut_pool` cuts these pairs."""
        places = self._draw(pass_number, pool)
        lengths = tf.cast(tf.gather(self._lengths, places), tf.int64)
        return places, *cut_pool(lengths, self.batch_tokens, self.max_length)

    def _read_pool(self, at: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Returns what `_batches_of_pool` takes of a pool of all passes."""
        pass_number, pool = at // self._pools, at % self._pools
        places, longest_first, padded, cuts = self._cut(pass_number, pool)
        if self.seed is not None:
            seed = [tf.cast(self._key(pass_number)[0], tf.int64), pool]
            cuts = tf.random.experimental.stateless_shuffle(cuts, seed=seed)
        index, count = self.worker_share
        drawn = index + count * places
        # In the order of the files: read forwards.
        forwards = tf.argsort(drawn)
        source, labels = self._read(tf.gather(drawn, forwards))
        rows = tf.gather(tf.argsort(forwards), longest_first)
        return source, labels, rows, padded, cuts

    def _read(self, pair_ids: tf.Tensor) -> list[tf.Tensor]:
        """Returns sources and targets, int32 `[P, max_length]` each.

        `pair_ids` are places in the whole corpus, `[P]`, ascending.
        """
        bounds = tf.searchsorted(pair_ids, self._first_pairs)  # [shards + 1]
        sides = []
        tokenizer = self.tokenizer
        ends = tokenizer.source_eos_id, tokenizer.eos_id
        for side, eos_id in enumerate(ends):
            parts = []
            for shard_number, (ids, offsets) in enumerate(self._shards):
                rows = tf.RaggedTensor.from_row_splits(
                    ids(), offsets(), validate=False
                )
                own = pair_ids[bounds[shard_number] : bounds[shard_number + 1]]
                own -= self._first_pairs[shard_number]
                parts.append(tf.gather(rows, 2 * own + side))
            ids = tf.cast(tf.concat(parts, axis=0), tf.int32)
            ids = ids.with_row_splits_dtype(tf.int64)
            sides.append(
                padded_rows(ids, tokenizer.pad_id, eos_id, self.max_length)
            )
        return sides

    def _batches_of_pool(
        self,
        source: tf.Tensor,  # [P, max_length]
        labels: tf.Tensor,  # [P, max_length]
        rows: tf.Tensor,  # which of them are the longest, and so on, [P]
        padded: tf.Tensor,  # length to which each of `rows` is padded, [P]
        cuts: tf.Tensor,  # begin and end of each batch in `rows`, [batches, 2]
    ) -> tf.data.Dataset:
        """Returns the batches of a pool."""

        def gather_batch(cut: tf.Tensor) -> tuple:
            chosen, length = rows[cut[0] : cut[1]], padded[cut[0]]
            sides = (tf.gather(x, chosen)[:, :length] for x in (source, labels))
            return make_batch(*sides, self.tokenizer)

        return tf.data.Dataset.from_tensor_slices(cuts).map(gather_batch)


def check_budget(batch_tokens: int, max_length: int, workers: int = 1) -> None:
    """Raises InputError if a pair of `max_length` exceeds a worker's batch."""
    check_max_length(max_length)
    minimum = 2 * max_length * workers
    if batch_tokens < minimum:
        per_worker = f" for each of {workers} workers" if workers > 1 else ""
        raise InputError(
            "batch_tokens counts the tokens of source and target, so it must "
            f"be at least 2 * max_length{per_worker} = {minimum}. Received: "
            f"batch_tokens={batch_tokens}, max_length={max_length}. Raise "
            "batch_tokens or lower max_length."
        )


def _as_tensor(array: np.ndarray) -> Callable[[], tf.Tensor]:
    """Returns a function that gives a tensor of an array.

    If it is mapped, the tensor is in the memory of the file, of which nothing
    is read before it is used: a variable, because `tf.constant` copies an
    array, and `tf.data` each tensor that its functions use. An array that is
    not mapped may not be aligned as TensorFlow needs.
    """
    if not isinstance(array, np.memmap):
        tensor = tf.constant(array)
        return lambda: tensor
    tensor = tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    # Other operations of a variable than `read_value` may copy it.
    return tf.Variable(tensor, trainable=False).read_value
