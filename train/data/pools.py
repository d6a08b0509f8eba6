"""Pools of pairs: drawn in a random order, read, sorted by length, cut, padded.

Letters: N = pairs in a pool, B = pairs in a batch, L = padded length.
"""

import hashlib
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_transformer.text import Tokenizer
from keras_transformer.train.data.encoding import TokenShard

# With a vocabulary of 8k, 12% to 14% of a batch is padding. A ratio of 1.25
# gives 16%; 1.1 gives 10%, but 1.5 times as many shapes.
_SHORTEST_BUCKET = 8
_BUCKET_RATIO = 1.15

_ROUNDS = 4  # of the cipher
_HALF = np.uint64(32)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, without a pattern


def bucket_lengths(max_length: int) -> list[int]:
    """Returns the padded lengths of batches: 8, 10, 12, ..., `max_length`."""
    lengths = [min(_SHORTEST_BUCKET, max_length)]
    while lengths[-1] < max_length:
        longer = math.ceil(lengths[-1] * _BUCKET_RATIO)
        lengths.append(min(longer, max_length))
    return lengths


def random_numbers(count: int, *seed: int) -> np.ndarray:
    """Returns uint64 `[count]`, equal on all machines and versions of NumPy."""
    digest = hashlib.shake_128(" ".join(map(str, seed)).encode()).digest(
        8 * count
    )
    return np.frombuffer(digest, "<u8").astype(np.uint64)


def permute(places: np.ndarray, size: int, *seed: int) -> np.ndarray:
    """Returns the images of int64 places in a permutation of `range(size)`.

    A Feistel cipher permutes a power of two. Images that are too large are
    permuted again, until all of them are in the range.
    """
    bits = max((size - 1).bit_length(), 2)
    low_bits = np.uint64(bits // 2)
    low_mask = np.uint64(2 ** (bits // 2) - 1)
    high_mask = np.uint64(2 ** (bits - bits // 2) - 1)
    keys = random_numbers(2 * _ROUNDS, *seed)
    result = places.astype(np.uint64)
    remaining = np.arange(result.size)
    while remaining.size:
        images = result[remaining]
        high, low = images >> low_bits, images & low_mask
        for first, second in keys.reshape(-1, 2):
            high ^= ((low ^ first) * _FACTOR >> _HALF) & high_mask
            low ^= ((high ^ second) * _FACTOR >> _HALF) & low_mask
        images = (high << low_bits) | low
        result[remaining] = images
        remaining = remaining[images >= size]
    return result.astype(np.int64)


class Run(NamedTuple):
    """Successive batches with the same padded length."""

    length: int
    rows: int  # of a batch; the last one of a pool may have fewer
    begin: int  # the first pair, and the end of the last
    end: int

    @property
    def batches(self) -> int:
        """Number of batches."""
        return -(-(self.end - self.begin) // self.rows)


def cut_pool(
    lengths: np.ndarray,
    batch_tokens: int,
    max_length: int,
    rows_multiple: int | None = None,
) -> list[Run]:
    """Cuts pairs, with the lengths `[N]` of their longer sides, into batches.

    Pairs are taken from the longest down. A batch takes as many as fit when
    they are padded to the bucket of its first and longest one.
    """
    buckets = bucket_lengths(max_length)
    at_most = np.cumsum(np.bincount(lengths, minlength=max_length + 1))
    runs, begin = [], 0
    for length, shorter in zip(
        buckets[::-1], [*buckets[-2::-1], 0], strict=True
    ):
        rows = batch_tokens // (2 * length)
        if rows_multiple is not None:
            rows = max(rows // rows_multiple, 1) * rows_multiple
        longer = lengths.size - int(at_most[shorter])  # than the next bucket
        if longer > begin:
            end = begin + -(-(longer - begin) // rows) * rows
            runs.append(Run(length, rows, begin, min(end, lengths.size)))
            begin = end
    return runs


def read_batches(
    shards: Sequence[TokenShard],
    tokenizer: Tokenizer,
    places: np.ndarray,
    lengths: np.ndarray,
    runs: Sequence[Run],
    fill: bool,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns sources and labels of the batches of a pool, int32 `[B, L]`.

    `places` are the pairs, `[N]`, and `lengths` the lengths of their longer
    sides. `fill` makes all batches of a run full, with rows of padding.
    """
    # Sorting small unsigned integers takes linear time.
    order = np.argsort(lengths.max() - lengths, kind="stable")
    places = places[order]
    # Read in the order of the files.
    forwards = np.argsort(places)
    ids, offsets = _read_texts(shards, places[forwards])
    texts = np.empty_like(forwards)
    texts[forwards] = 2 * np.arange(places.size)
    end_ids = tokenizer.source_eos_id, tokenizer.eos_id
    batches = []
    for run in runs:
        rows = run.batches * run.rows if fill else run.end - run.begin
        own = texts[run.begin : run.end]
        source, labels = (
            _pad(
                ids, offsets, own + side, (rows, run.length), eos_id, tokenizer
            )
            for side, eos_id in enumerate(end_ids)
        )
        for first in range(0, rows, run.rows):
            batch = slice(first, first + run.rows)
            batches.append((source[batch], labels[batch]))
    return batches


def _read_texts(
    shards: Sequence[TokenShard], places: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ids of pairs at ascending places, and offsets of texts."""
    firsts = np.cumsum([0, *(shard.pairs for shard in shards)])
    bounds = np.searchsorted(places, firsts)
    flat, sizes = [], [[0]]
    for number, (ids, offsets) in enumerate(shards):
        own = places[bounds[number] : bounds[number + 1]] - firsts[number]
        texts = (2 * own[:, None] + [0, 1]).ravel()
        begins = offsets[texts].astype(np.int64)
        size = offsets[texts + 1] - begins
        index = np.repeat(begins - (np.cumsum(size) - size), size)
        index += np.arange(index.size)
        flat.append(ids[index])
        sizes.append(size)
    return np.concatenate(flat), np.cumsum(np.concatenate(sizes))


def _pad(
    ids: np.ndarray,
    offsets: np.ndarray,
    texts: np.ndarray,
    shape: tuple[int, int],
    eos_id: int,
    tokenizer: Tokenizer,
) -> np.ndarray:
    """Returns texts with end tokens as an int32 array of a shape."""
    begins = offsets[texts][:, None]
    sizes = offsets[texts + 1][:, None] - begins
    columns = np.arange(shape[1])
    padded = np.full(shape, tokenizer.pad_id, np.int32)
    # Places behind the end of a text have ids of the next one.
    rows = ids.take(begins + columns, mode="clip")
    np.copyto(padded[: texts.size], rows, where=columns < sizes)
    padded[np.arange(texts.size), sizes[:, 0]] = eos_id
    return padded
