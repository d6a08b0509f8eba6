"""Attention masks. One convention everywhere: True = may be attended to.

Letters: B = batch, T = target (query) length, S = source (key) length.
"""

import functools
from typing import Any

from keras import ops


def padding_mask(ids: Any, pad_id: int) -> Any:
    """Returns boolean `[B, 1, S]`, True where ids `[B, S]` are not `pad_id`."""
    return ops.expand_dims(ops.not_equal(ids, pad_id), axis=1)


def causal_mask(length: Any) -> Any:
    """Returns a mask that hides the future (section 3.2.3).

    Args:
        length: T, as an integer or a scalar tensor; or a tensor `[B, T]` or
            `[B, T, d]` that has this length, as in a functional Keras model.

    Returns:
        Boolean `[1, T, T]`, True where the key is not after the query.

    Raises:
        ValueError: If `length` is None or a tensor of a different rank.
    """
    shape = getattr(length, "shape", ())
    if length is None or len(shape) not in (0, 2, 3):
        raise ValueError(
            "length must be an integer, a scalar tensor, or a tensor [B, T] or "
            f"[B, T, d]. Received: {length}. In a functional Keras model pass "
            "the tensor: causal_mask(x)."
        )
    if len(shape):
        # A symbolic tensor has no length to number the positions by.
        row = length[:1, :] if len(shape) == 2 else length[:1, :, 0]
        ones = ops.ones_like(row, dtype="bool")  # [1, T]
        queries = ops.expand_dims(ones, axis=2)
        keys = ops.expand_dims(ones, axis=1)
        return ops.tril(ops.logical_and(queries, keys))
    positions = ops.arange(length)
    return ops.expand_dims(positions[:, None] >= positions[None, :], axis=0)


def window_mask(length: Any, window: int, causal: bool = False) -> Any:
    """Returns a mask that hides all positions outside a window (section 4).

    Position i may attend to the positions from i - floor(r/2) to
    i + floor((r-1)/2): an even r has one more before than after.

    Args:
        length: T, as an integer or a scalar tensor.
        window: The number of positions, r.
        causal: If True, position i sees positions i - (r - 1) to i.

    Returns:
        Boolean `[1, T, T]`.
    """
    before, after = window_reach(window, causal)
    positions = ops.arange(length)
    distance = positions[None, :] - positions[:, None]  # key minus query
    near = ops.logical_and(distance >= -before, distance <= after)
    return ops.expand_dims(near, axis=0)


def window_reach(window: int, causal: bool = False) -> tuple[int, int]:
    """Returns how many positions before and after itself a position sees."""
    return (window - 1, 0) if causal else (window // 2, (window - 1) // 2)


def combine_masks(*masks: Any) -> Any:
    """Returns a mask that is True where every given mask is.

    None hides nothing. Returns None if every mask is None.
    """
    masks = [mask for mask in masks if mask is not None]
    return functools.reduce(ops.logical_and, masks) if masks else None
