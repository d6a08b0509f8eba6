"""Operations of a decoding step, without the overhead of Keras.

Layers of Keras take hypotheses `[B, K, n]`. Prepared parts take rows `[N, n]`,
which are faster. Letters as in `decoding/step.py`.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

Function = Callable[[Any], Any]  # from one tensor to another

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


def on_backend(models: Sequence[Any], function: Callable) -> Callable:
    """Returns a function that uses models, for calls without gradients.

    JAX compiles it once for each shape of its arguments.
    """
    if keras.config.backend() == "torch":
        import torch

        return torch.no_grad()(function)
    if keras.config.backend() != "jax":
        return function
    import jax

    variables = [x for model in models for x in model.variables]

    @jax.jit
    def compiled(values: list, arguments: tuple) -> Any:
        with keras.StatelessScope(list(zip(variables, values, strict=True))):
            return function(*arguments)

    return lambda *arguments: compiled([x.value for x in variables], arguments)


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
