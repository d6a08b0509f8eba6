"""Operations of the backend, without the overhead of `keras.ops`."""

import functools
import itertools
from typing import Any

import keras
from keras import ops

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

    take = tf.gather
    take_parents = functools.partial(tf.gather, batch_dims=1)
    split = functools.partial(tf.split, axis=1)
    matmul_transposed = functools.partial(tf.matmul, transpose_b=True)
    tensor = tf.convert_to_tensor  # a lookup in a variable would copy it

else:
    take = ops.take
    tensor = ops.convert_to_tensor

    def take_parents(x: Any, parents: Any) -> Any:
        """`[B, K, n]` and `[B, K]` -> `[B, K, n]`."""
        return ops.take_along_axis(x, parents[..., None], axis=1)

    def split(x: Any, sizes: list[int]) -> list[Any]:
        """Splits the columns of x."""
        return ops.split(x, list(itertools.accumulate(sizes[:-1])), axis=1)

    def matmul_transposed(x: Any, y: Any) -> Any:
        """Returns x y^T, of the last two dimensions."""
        return ops.matmul(x, ops.swapaxes(y, -1, -2))
