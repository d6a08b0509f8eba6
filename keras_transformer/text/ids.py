"""Ids of texts: special ids, and arrays of ids."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class SpecialIds(NamedTuple):
    """Ids of special tokens, as arguments of a search."""

    bos_id: int  # the first input, which may be `eos_id` or `pad_id`
    eos_id: int
    pad_id: int
    banned_ids: tuple[int, ...] = ()  # only a prefix may contain them


def padded(rows: Sequence[Sequence[int]], pad_id: int) -> np.ndarray:
    """Returns ids of texts as an array, int32 `[B, longest]`."""
    array = np.full((len(rows), max(map(len, rows))), pad_id, np.int32)
    for row, ids in zip(array, rows, strict=True):
        row[: len(ids)] = ids
    return array
