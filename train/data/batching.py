"""Batches of token ids in a globally shuffled order.

A pass over the corpus is a random permutation of all pairs, which is computed,
never stored: to start anywhere, only lengths are read before. The next pairs of
the permutation form a pool, which is read in the order of the files; pools.py
cuts it into batches.
"""

import atexit
import bisect
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import keras
import numpy as np

from keras_transformer.tasks import Task
from keras_transformer.text import Tokenizer
from keras_transformer.train.data import encoding, pools
from keras_transformer.train.data.encoding import TokenShard
from keras_transformer.train.data.reading import without_tuning

if TYPE_CHECKING:
    import tensorflow as tf

# Size of the pools in which pairs are sorted by length: 32 MiB per side.
_POOL_IDS = 2**23

Batch = tuple[dict[str, np.ndarray], np.ndarray]


def training_batches(
    pairs: "Iterable[tuple[str, str]] | tf.data.Dataset",
    tokenizer: Tokenizer,
    *,
    batch_tokens: int,
    max_length: int,
    seed: int | None,
    task: Task | None = None,
) -> "Batches | tf.data.Dataset":
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
            order. None: one pass, as `evaluation_batches` returns it.
        task: The task. Default: translation.

    Returns:
        Batches `({"source": [B, L], "target": [B, L]}, labels [B, L])`, all
        int32: the source with its end token, the target with its start token
        as the input of the decoder, and the target with its end token. They
        are a `tf.data.Dataset` on TensorFlow, else a `keras.utils.PyDataset`.
        On JAX, which compiles each shape, rows of padding fill each batch.

    Raises:
        InputError: If a pair of `max_length` exceeds `batch_tokens`, or all
            pairs are dropped.
    """
    encoding.check_budget(batch_tokens, max_length)
    encoder = encoding.PairEncoder(tokenizer, max_length, task)
    shards = list(encoder.shards(pairs))
    if seed is not None:
        encoder.statistics.check(max_length)
    batches = Batches(
        shards,
        tokenizer,
        batch_tokens=batch_tokens,
        max_length=max_length,
        seed=seed,
        # XLA compiles each shape; the devices share the rows.
        rows_multiple=len(keras.distribution.list_devices())
        if keras.backend.backend() == "jax"
        else None,
    )
    return for_fit(batches)


def evaluation_batches(
    pairs: "Iterable[tuple[str, str]] | tf.data.Dataset",
    tokenizer: Tokenizer,
    *,
    batch_tokens: int,
    max_length: int,
    task: Task | None = None,
) -> "Batches | tf.data.Dataset":
    """Returns one pass over the pairs, in batches as for training.

    They know their number, which may be 0: `cardinality()` on TensorFlow,
    else `num_batches`. For arguments, result and errors see
    `training_batches`.
    """
    return training_batches(
        pairs,
        tokenizer,
        batch_tokens=batch_tokens,
        max_length=max_length,
        seed=None,
        task=task,
    )


class Batches(keras.utils.PyDataset):
    """The batches of a corpus of ids, in all its passes or in one.

    Item `i` is batch `start + i`, counted over all passes. A thread reads the
    next pool of pairs while the batches of the current one are in use.
    """

    def __init__(
        self,
        shards: Sequence[TokenShard],
        tokenizer: Tokenizer,
        *,
        batch_tokens: int,  # at least two of `max_length`
        max_length: int,
        seed: int | None = None,  # None: one pass, which is not shuffled
        worker_share: tuple[int, int] = (0, 1),  # (index, count of workers)
        # Number of pairs and weight of each part of the corpus.
        parts: Sequence[tuple[int, float]] = (),
        # Rows of padding fill each batch up to the number of rows of its
        # length, a multiple of this number. None: no such rows.
        rows_multiple: int | None = None,
        start: int = 0,
    ) -> None:
        super().__init__()
        self.batch_tokens = batch_tokens
        self.max_length = max_length
        self.seed = seed
        self.worker_share = worker_share
        self.rows_multiple = rows_multiple
        self.start = start
        self._shards = shards
        self._tokenizer = tokenizer
        # Tokens of each pair's longer side, usually in one or two bytes.
        dtype = np.min_scalar_type(max_length)
        sides = (np.diff(shard.offsets).reshape(-1, 2) + 1 for shard in shards)
        lengths = [side.max(axis=1).astype(dtype) for side in sides]
        self._lengths = np.concatenate(lengths)
        counts = [pairs for pairs, _ in parts] or [len(self._lengths)]
        # Number of pairs that a pass reads from each part.
        sizes = [max(round(pairs * weight), 1) for pairs, weight in parts]
        self._counts = np.array(counts)
        self._sizes = np.array(sizes or counts)
        index, count = worker_share
        self._num_places = len(range(index, self._sizes.sum(), count))
        self._pool_size = max(_POOL_IDS // max_length, 1)
        self.num_pools = -(-self._num_places // self._pool_size)  # of a pass
        # How many batches all pools up to each one have; all known pools.
        self._batch_ends: list[int] = []
        self._pools: dict[int, Future] = {}  # the current one and the next
        self._lock = threading.Lock()
        self._executor = ThreadPoolExecutor(1)

    @property
    def num_batches(self) -> int | None:
        """The number of batches; None if they are endless."""
        if self.seed is not None:
            return None
        return self.count_batches_of_pass() - self.start

    def count_batches_of_pass(self) -> int:
        """Returns the number of batches in the first pass."""
        while len(self._batch_ends) < self.num_pools:
            self._count_next_pool()
        return self._batch_ends[self.num_pools - 1] if self.num_pools else 0

    def __getitem__(self, index: int) -> Batch:
        with self._lock:
            pool, number = self._find(self.start + index)
        begin, rows, length = pool.cuts[number]
        texts = pool.texts[begin : begin + rows]
        if self.rows_multiple is None:
            rows = texts.size
        tokenizer = self._tokenizer
        pad_id = tokenizer.pad_id
        source = np.full((rows, length), pad_id, np.int32)
        labels = source.copy()
        pool.copy(texts, source, tokenizer.source_eos_id)
        pool.copy(texts + 1, labels, tokenizer.eos_id)
        # The decoder's input is the labels, shifted right by one position.
        # Without `where` it would contain the end token before padding.
        target = np.full_like(labels, tokenizer.bos_id)
        target[:, 1:] = labels[:, :-1]
        target = np.where(labels != pad_id, target, pad_id)
        return {"source": source, "target": target}, labels

    def _find(self, index: int) -> tuple["_Pool", int]:
        """Returns the pool of a batch, and the place of the batch in it."""
        while not self._batch_ends or self._batch_ends[-1] <= index:
            self._count_next_pool()
        pool = bisect.bisect(self._batch_ends, index)
        for other in self._pools.keys() - {pool, pool + 1}:
            self._pools.pop(other).cancel()
        for needed in (pool, pool + 1):
            exists = self.seed is not None or needed < self.num_pools
            if exists and needed not in self._pools:
                future = self._executor.submit(self._read, needed)
                self._pools[needed] = future
        begin = self._batch_ends[pool - 1] if pool else 0
        return self._pools[pool].result(), index - begin

    def _count_next_pool(self) -> None:
        pool = len(self._batch_ends)
        if self.seed is None and pool == self.num_pools:
            raise IndexError("There are no further batches")
        before = self._batch_ends[-1] if pool else 0
        cuts = self._cut(self._lengths[self._draw(pool)])
        self._batch_ends.append(before + len(cuts))

    def _read(self, pool: int) -> "_Pool":
        places = self._draw(pool)
        lengths = self._lengths[places]
        cuts = self._cut(lengths)
        if self.seed is not None:
            keys = pools.random_numbers(len(cuts), self.seed, pool, 1)
            cuts = [cuts[i] for i in np.argsort(keys, kind="stable")]
        forwards = np.argsort(places)  # in the order of the files
        ids, offsets = pools.read_texts(self._shards, places[forwards])
        texts = np.empty_like(forwards)
        texts[forwards] = 2 * np.arange(places.size)
        longest_first = np.argsort(self.max_length - lengths, kind="stable")
        return _Pool(ids, offsets, texts[longest_first], cuts)

    def _cut(self, lengths: np.ndarray) -> list[pools.Cut]:
        return pools.cut_pool(
            lengths, self.batch_tokens, self.max_length, self.rows_multiple
        )

    def _draw(self, pool: int) -> np.ndarray:
        """Returns the pairs of a pool as places in the corpus, `[N]`.

        Each pass continues in a part where the previous one ended.
        """
        number, within = divmod(pool, self.num_pools)
        first = within * self._pool_size
        end = min(first + self._pool_size, self._num_places)
        places = np.arange(first, end)
        if self.seed is not None:
            places = pools.permute(places, self._num_places, self.seed, number)
        index, count = self.worker_share
        places = index + count * places  # of all workers
        ends = np.cumsum(self._sizes)
        part = np.searchsorted(ends, places, side="right")
        size, count = self._sizes[part], self._counts[part]
        within = number * size + places - (ends[part] - size)
        return (np.cumsum(self._counts)[part] - count) + within % count


class _Pool(NamedTuple):
    """The ids of pairs, in the order of the files."""

    ids: np.ndarray  # of all texts: source, target, source, ...
    offsets: np.ndarray  # the begin of each text, and the end of the last
    texts: np.ndarray  # the sources of pairs, from the longest pair down
    cuts: list[pools.Cut]  # the batches, in random order

    def copy(self, texts: np.ndarray, padded: np.ndarray, eos_id: int) -> None:
        """Copies texts with end tokens into rows of padding, `[B, L]`."""
        begins = self.offsets[texts][:, None]
        sizes = self.offsets[texts + 1][:, None] - begins
        columns = np.arange(padded.shape[1])
        # Behind the end of a text are the ids of the next one.
        ids = self.ids.take(begins + columns, mode="clip")
        np.copyto(padded[: texts.size], ids, where=columns < sizes)
        padded[np.arange(texts.size), sizes[:, 0]] = eos_id


def for_fit(batches: Batches) -> "Batches | tf.data.Dataset":
    """Returns batches in the form that `fit` takes on this backend.

    On TensorFlow, Keras would expect the lengths of the first two batches of
    a `PyDataset` from all others.
    """
    if keras.backend.backend() != "tensorflow":
        return batches
    import tensorflow as tf

    def read(index: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        with _reading:
            if _is_exiting.is_set():
                raise StopIteration
            inputs, labels = batches[index]
        return inputs["source"], inputs["target"], labels

    def load(index: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        arrays = tf.numpy_function(read, [index], [tf.int32] * 3)
        for array in arrays:
            array.set_shape([None, None])
        source, target, labels = arrays
        return {"source": source, "target": target}, labels

    size = batches.num_batches
    indices = tf.data.Dataset.counter()
    if size is not None:
        indices = tf.data.Dataset.range(size)
    return without_tuning(indices.map(load))


# A `tf.distribute` strategy reads in threads. If one called Python while Python
# exits, it and the process would wait for each other.
_is_exiting = threading.Event()
_reading = threading.Lock()


@atexit.register
def _end_reading() -> None:
    with _reading:
        _is_exiting.set()
    if "tensorflow" in sys.modules:
        time.sleep(0.1)  # in which TensorFlow's own Python code ends
