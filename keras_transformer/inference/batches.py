"""Batches of texts of similar length, and the threads that translate them."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from keras_transformer.support.fields import POSITIVE_INTEGER, check_values


def in_batches(
    function: Callable[..., list[Any]],
    columns: Sequence[Sequence[Any]],
    lengths: Sequence[float],
    max_length: int | None,
    batch_tokens: int,
    workers: int,
    max_batch_size: int,
    progress: Callable[[int], Any] | None,
) -> list[Any]:
    """Calls a function with the number of workers and rows of columns.

    Args:
        function: Returns a result for each row. Called in several threads.
        columns: Sequences of the same length.
        lengths: The number of tokens of each row.
        max_length: As in `batches_by_length`; None if it is not known.
        batch_tokens: As in `batches_by_length`.
        workers: The number of threads; 1 is this thread.
        max_batch_size: As in `batches_by_length`.
        progress: Called after each batch with its number of rows.

    Returns:
        The results of all rows, in order.
    """
    check_values(POSITIVE_INTEGER, batch_tokens=batch_tokens, workers=workers)
    workers = min(workers, len(lengths)) or 1
    sizes = max_length or batch_tokens, batch_tokens, workers, max_batch_size
    batches = batches_by_length(lengths, *sizes)
    results: list[Any] = [None] * len(lengths)

    def call(rows: list[int]) -> list[Any]:
        return function(workers, *([x[row] for row in rows] for x in columns))

    with ThreadPoolExecutor(workers) as pool:
        run = map if workers == 1 else pool.map
        # After an error `pool.map` cancels the batches that wait.
        for rows, values in zip(batches, run(call, batches), strict=True):
            for row, value in zip(rows, values, strict=True):
                results[row] = value
            if progress is not None:
                progress(len(rows))
    return results


def batches_by_length(
    lengths: Sequence[float],
    max_length: int,
    batch_tokens: int,
    workers: int = 1,
    max_batch_size: int = 128,
) -> list[list[int]]:
    """Groups the indices of texts of similar length, longest first.

    Lengths are without the end token, which counts in `batch_tokens` like
    padding. Longer texts are cut at `max_length`. There are as many batches as
    workers, at least.
    """
    lengths = [min(length + 1, max_length) for length in lengths]
    largest = min(max_batch_size, math.ceil(len(lengths) / workers))
    rows = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    batches, start = [], 0
    while start < len(rows):
        size = min(int(batch_tokens // lengths[rows[start]]), largest)
        batches.append(rows[start : start + max(size, 1)])
        start += len(batches[-1])
    return batches
