"""Dense layers, prepared for products of `[N, n]` with their weights.

Letters are those of `decoding/step.py`.
"""

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

Function = Callable[[Any], Any]  # from one tensor to another

if keras.backend.backend() == "tensorflow":
    # keras.ops would add operations to each of these.
    import tensorflow as tf

    # A lookup in a variable would copy it.
    tensor = tf.convert_to_tensor
    matmul_transposed = functools.partial(tf.matmul, transpose_b=True)

else:
    tensor = ops.convert_to_tensor

    def matmul_transposed(x: Any, y: Any) -> Any:
        """Returns x y^T, of the last two dimensions."""
        return ops.matmul(x, ops.swapaxes(y, -1, -2))


def is_plain_dense(layer: keras.layers.Layer) -> bool:
    """Returns whether a layer is a product with its kernel, and no more."""
    return (
        type(layer) is keras.layers.Dense
        and layer.quantization_mode is None
        and not layer.lora_enabled
    )


def prepare_dense(layer: keras.layers.Layer, dtype: str) -> Function:
    """Returns a `Linear`, or a layer that is not plain."""
    if not is_plain_dense(layer):
        return layer
    return Linear(layer.kernel, layer.bias, dtype, layer.activation)


class Linear:
    """activation(x kernel + bias), with weights in the compute dtype.

    A transposed kernel is that of activation(x kernel^T + bias).
    """

    def __init__(
        self,
        kernel: Any,
        bias: Any,
        dtype: str,
        activation: Function = keras.activations.linear,
        is_transposed: bool = False,
    ) -> None:
        self._kernel = in_dtype(kernel, dtype)
        self._bias = None if bias is None else in_dtype(bias, dtype)
        self._activation = activation
        self._product = matmul_transposed if is_transposed else ops.matmul

    def __call__(self, x: Any) -> Any:
        x = self._product(x, self._kernel)
        if self._bias is not None:
            # On TensorFlow `ops.add` makes it an addition that products
            # include.
            x = ops.add(x, self._bias)
        return self._activation(x)


def in_dtype(values: Any, dtype: str) -> Any:
    """Returns a variable's value, converted once if it must be."""
    if isinstance(values, keras.Variable):
        values = values.value
    if keras.backend.standardize_dtype(values.dtype) == dtype:
        return values
    return ops.cast(values, dtype)
