"""Batches of texts of similar length, for several threads."""

import math
from collections.abc import Sequence


def batches_by_length(
    lengths: Sequence[float],
    max_length: int,
    batch_tokens: int,
    workers: int = 1,
    max_batch_size: int = 128,
) -> list[list[int]]:
    """Groups the indices of texts of similar length, longest first.

    Lengths exclude the end token; `batch_tokens` includes it, and padding.
    Longer texts are cut at `max_length`. There are at least as many batches
    as workers.
    """
    lengths = [min(length + 1, max_length) for length in lengths]
    largest = min(max_batch_size, math.ceil(len(lengths) / workers))
    rows = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    batches = []
    start = 0
    while start < len(rows):
        size = min(int(batch_tokens // lengths[rows[start]]), largest)
        batches.append(rows[start : start + max(size, 1)])
        start += len(batches[-1])
    return batches
