"""Shapes in a decoding step: rows, hypotheses, and heads of attention.

Layers of Keras take hypotheses `[B, K, n]`. Prepared parts take rows `[N, n]`,
which are faster. Letters as in `decoding/step.py`.
"""

from typing import Any

from keras import ops

from keras_transformer.decoding.backend import take


def to_rows(x: Any) -> Any:
    """`[B, K, n]` -> `[N, n]`; rows stay as they are."""
    return x if len(x.shape) == 2 else ops.reshape(x, (-1, x.shape[-1]))


def to_hypotheses(x: Any, beam_size: Any) -> Any:
    """`[N, n]` -> `[B, K, n]`; rows stay rows if K is None."""
    if beam_size is None:
        return x
    return ops.reshape(x, (-1, beam_size, x.shape[-1]))


class HeadLayout:
    """Splits rows into heads `[B, H, K, w]`, and joins them.

    Heads are gathered by a constant index: a transpose is several times slower.
    The export for LiteRT has its own layout, with the same methods.
    """

    def __init__(self, beam_size: Any, num_heads: int) -> None:
        self.beam_size = beam_size
        self.num_heads = num_heads
        self._to_heads = _transposed(beam_size, num_heads)  # K, H -> H, K
        self._to_joint = _transposed(num_heads, beam_size)  # H, K -> K, H

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


def _transposed(rows: Any, columns: Any) -> Any:
    """Returns the indices of a matrix's entries, column by column."""
    indices = ops.reshape(ops.arange(rows * columns), (rows, columns))
    return ops.reshape(ops.transpose(indices), (-1,))
