"""Attention masks. One convention everywhere: True = may be attended to.

Letters: B = batch, T = target (query) length, S = source (key) length.
"""

from typing import Any

from keras import ops


def padding_mask(ids: Any, pad_id: int) -> Any:
    """Hides padding: `[B, S]` ids -> `[B, 1, S]`, True where not `pad_id`."""
    return ops.expand_dims(ops.not_equal(ids, pad_id), axis=1)


def causal_mask(length: Any) -> Any:
    """Hides the future: `[1, T, T]`, True where key <= query.

    Section 3.2.3: position i may depend on positions up to i only.

    Args:
        length: T, an integer or a scalar tensor.
    """
    positions = ops.arange(length)
    return ops.expand_dims(positions[:, None] >= positions[None, :], axis=0)
