"""Pools of N pairs: drawn in a random order, cut into batches, read."""

import bisect
import hashlib
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

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


class Cut(NamedTuple):
    """A batch of a pool, whose pairs are sorted from the longest down."""

    begin: int  # the first pair
    rows: int  # the number of pairs; fewer may be left for the last batch
    length: int  # padded


def cut_pool(
    lengths: np.ndarray,
    batch_tokens: int,
    max_length: int,
    rows_multiple: int | None = None,
) -> list[Cut]:
    """Cuts pairs, with the lengths `[N]` of their longer sides, into batches.

    A batch takes as many pairs as fit when they are padded to the bucket of
    its first and longest one; see `Batches` for `rows_multiple`.
    """
    buckets = bucket_lengths(max_length)
    longest_first = np.sort(lengths)[::-1]
    cuts, begin = [], 0
    while begin < lengths.size:
        length = buckets[bisect.bisect_left(buckets, longest_first[begin])]
        rows = batch_tokens // (2 * length)
        if rows_multiple is not None:
            rows = max(rows // rows_multiple, 1) * rows_multiple
        cuts.append(Cut(begin, rows, length))
        begin += rows
    return cuts


def read_texts(
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
