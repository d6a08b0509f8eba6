"""Positions added to embeddings: sinusoidal (section 3.5) or learned.

Letters: B = batch, T = length.
"""

from typing import Any

import keras
from keras import ops

from keras_transformer.layers.common import SameShape, arguments_of, check_sizes
from keras_transformer.support import fields


class PositionalEncoding(SameShape):
    """Base class: adds one vector per position to `x`, `[B, T, d_model]`.

    A subclass has a method `vectors`, which returns the float32 vectors
    `[T, d_model]` of positions `[T]`.
    """

    def call(self, x: Any) -> Any:
        vectors = self.vectors(ops.arange(ops.shape(x)[1]))
        return x + ops.cast(vectors, x.dtype)


@keras.saving.register_keras_serializable(package="keras_transformer")
class SinusoidalPositionalEncoding(PositionalEncoding):
    """Adds sin(pos / 10000^(2i/d_model)) and its cosine, interleaved.

    Dimension 2i is the sine and 2i+1 the cosine, as printed in section 3.5.
    The vectors are computed in float32 under any dtype policy, for any
    length. The arguments are for the models of other systems.

    Args:
        layout: `"interleaved"`, or `"halves"`: all sines before all cosines.
        endpoint: Whether the exponents are i / (d_model/2 - 1), so that the
            lowest frequency is 1/10000.
        offset: Number of the first position.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `[B, T, d_model]`.

    Returns:
        `[B, T, d_model]`.

    Example:

    >>> import keras, keras_transformer as kt
    >>> positions = kt.layers.SinusoidalPositionalEncoding()
    >>> tuple(positions(keras.random.normal((2, 10, 512))).shape)
    (2, 10, 512)
    """

    def __init__(
        self,
        layout: str = "interleaved",
        endpoint: bool = False,
        offset: int = 0,
        **kwargs: Any,
    ) -> None:
        layouts = fields.one_of("interleaved", "halves")
        fields.check_values(layouts, layout=layout)
        super().__init__(**kwargs)
        self.layout = layout
        self.endpoint = endpoint
        self.offset = offset

    def build(self, input_shape: tuple) -> None:
        self.d_model = input_shape[-1]
        needs_pairs = self.layout == "halves" or self.endpoint
        if needs_pairs and (self.d_model % 2 or self.d_model < 4):
            raise ValueError(
                "layout='halves' and endpoint need an even width of at least "
                f"4. Received: {self.d_model}"
            )

    def vectors(self, positions: Any) -> Any:
        dimension = ops.arange(self.d_model)
        if self.layout == "interleaved":
            pair = dimension // 2
            has_sine = ops.equal(dimension % 2, 0)
        else:
            half = self.d_model // 2
            pair = dimension % half
            has_sine = dimension < half
        # Dimensions of a pair share the frequency 10000^(-exponent).
        last = self.d_model / 2 - self.endpoint
        exponent = ops.cast(pair, "float32") / last
        positions = ops.cast(positions, "float32")[:, None] + self.offset
        angles = positions * ops.power(10000.0, -exponent)  # [T, d_model]
        return ops.where(has_sine, ops.sin(angles), ops.cos(angles))

    def get_config(self) -> dict[str, Any]:
        arguments = arguments_of(self, SinusoidalPositionalEncoding)
        return super().get_config() | arguments


@keras.saving.register_keras_serializable(package="keras_transformer")
class LearnedPositionalEncoding(PositionalEncoding):
    """Adds one trained vector per position (Table 3, row E).

    Args:
        max_length: Number of positions. TensorFlow on CPU raises an error for
            a longer input.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `[B, T, d_model]`, T <= max_length.

    Returns:
        `[B, T, d_model]`.

    Raises:
        ValueError: If T is known statically and exceeds `max_length`.

    Example:

    >>> import keras, keras_transformer as kt
    >>> positions = kt.layers.LearnedPositionalEncoding(max_length=100)
    >>> tuple(positions(keras.random.normal((2, 10, 512))).shape)
    (2, 10, 512)
    """

    def __init__(self, max_length: int, **kwargs: Any) -> None:
        check_sizes(max_length=max_length)
        super().__init__(**kwargs)
        self.max_length = max_length

    def build(self, input_shape: tuple) -> None:
        """Creates the table `[max_length, d_model]`."""
        d_model = input_shape[-1]
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.max_length, d_model),
            initializer=keras.initializers.RandomNormal(stddev=d_model**-0.5),
        )

    def vectors(self, positions: Any) -> Any:
        length = positions.shape[0]
        # Beyond the table JAX returns NaN, and TensorFlow on a GPU zeros.
        if length is not None and length > self.max_length:
            raise ValueError(
                f"The input is longer than max_length={self.max_length}. "
                f"Received: {length} positions"
            )
        return ops.take(ops.cast(self.embeddings, "float32"), positions, axis=0)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_length": self.max_length}
