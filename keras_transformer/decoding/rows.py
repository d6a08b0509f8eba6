"""Shapes in a decoding step: rows of hypotheses, and heads of attention.

Letters as in `decoding/step.py`.
"""

from typing import Any

from keras import ops

from keras_transformer.decoding.backend import take


class Rows:
    """Converts between `[N, n]`, `[B, K, n]` and heads `[B, H, K, w]`.

    Heads are gathered by a constant index: a transpose is several times slower.
    """

    def __init__(self, beam_size: Any, num_heads: int) -> None:
        def transposed(*shape: Any) -> Any:
            rows = ops.reshape(ops.arange(beam_size * num_heads), shape)
            return ops.reshape(ops.transpose(rows), (-1,))

        self.beam_size = beam_size
        self.num_heads = num_heads
        self._to_heads = transposed(beam_size, num_heads)  # K, H -> H, K
        self._to_joint = transposed(num_heads, beam_size)  # H, K -> K, H

    def unflatten(self, x: Any) -> Any:
        """`[N, n]` -> `[B, K, n]`."""
        return ops.reshape(x, (-1, self.beam_size, x.shape[-1]))

    def flat(self, x: Any) -> Any:
        """`[B, K, n]` -> `[N, n]`."""
        return ops.reshape(x, (-1, x.shape[-1]))

    def split(self, x: Any) -> Any:
        """`[N, H*w]` -> `[B, H, K, w]`."""
        width = x.shape[1] // self.num_heads
        x = ops.reshape(x, (-1, self.beam_size * self.num_heads, width))
        x = take(x, self._to_heads, axis=1)
        return ops.reshape(x, (-1, self.num_heads, self.beam_size, width))

    def join(self, x: Any) -> Any:
        """`[B, H, K, w]` -> `[N, H*w]`."""
        width = x.shape[-1]
        x = ops.reshape(x, (-1, self.num_heads * self.beam_size, width))
        x = take(x, self._to_joint, axis=1)  # [B, K*H, w]
        return ops.reshape(x, (-1, self.num_heads * width))
