"""Limits of searches: lengths and repetitions, in TensorFlow and NumPy.

Letters: B = batch, K = hypotheses of a sentence, t = tokens decoded.
"""

from typing import Any


def repeats(xp: Any, ids: Any, size: int) -> tuple[Any, Any]:
    """Returns the last tokens of all n-grams of hypotheses `[B, K, t]`.

    Also returns which of them would complete a repeated n-gram; both are
    `[B, K, m]`. `xp` is `numpy` or `tensorflow`; `size`, n, is at least 1.
    """
    last = xp.shape(ids)[2] - size + 1  # where their last n-gram begins
    count = xp.maximum(last, 0)
    tokens = ids[:, :, size - 1 :]
    are_same = xp.ones_like(tokens, bool)
    for i in range(size - 1):
        now = ids[:, :, last + i : last + i + 1]
        are_same &= ids[:, :, i : i + count] == now
    return tokens, are_same


def longest_outputs(
    xp: Any,
    source_lengths: Any,
    prefix_lengths: Any,
    length_factor: Any,
    extra_length: Any,
    max_length: int,
) -> Any:
    """Returns the maximum length of each hypothesis, an integral float32 `[B]`.

    Lengths include end tokens. All arguments but the last are float32; `xp` is
    `numpy` or `tensorflow`.
    """
    lengths = xp.minimum(length_factor * source_lengths, float(max_length))
    lengths = xp.maximum(xp.floor(lengths) + extra_length, 1.0)
    return xp.minimum(lengths + prefix_lengths, float(max_length))
