"""Dense layers, prepared for products of `[N, n]` with their weights.

Letters as in `decoding/step.py`.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_transformer.decoding.backend import matmul_transposed

Function = Callable[[Any], Any]  # from one tensor to another


def is_plain_dense(layer: keras.layers.Layer) -> bool:
    """Whether a layer only multiplies by its kernel and adds its bias."""
    return (
        type(layer) is keras.layers.Dense
        and layer.quantization_mode is None
        and not layer.lora_enabled
    )


def prepare_dense(layer: keras.layers.Layer, dtype: str) -> Function:
    """Returns a `Linear`, or the layer itself if it is not plain."""
    if not is_plain_dense(layer):
        return layer
    return Linear(layer.kernel, layer.bias, dtype, layer.activation)


class Linear:
    """activation(x kernel + bias), with weights in the compute dtype."""

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
            x = ops.add(x, self._bias)  # TensorFlow fuses it with the product
        return self._activation(x)


def in_dtype(values: Any, dtype: str) -> Any:
    """Returns a variable's value in a dtype."""
    if isinstance(values, keras.Variable):
        values = values.value
    if keras.backend.standardize_dtype(values.dtype) == dtype:
        return values
    return ops.cast(values, dtype)
