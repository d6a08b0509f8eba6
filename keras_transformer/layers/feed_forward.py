"""Position-wise feed-forward network (section 3.3)."""

from typing import Any

import keras

from keras_transformer.layers.common import SameShape, arguments_of, check_sizes
from keras_transformer.quantized import policy_of


@keras.saving.register_keras_serializable(package="keras_transformer")
class FeedForward(SameShape):
    """max(0, x W1 + b1) W2 + b2 at each position (equation 2).

    A mask that `x` carries is passed on. For a different network, override
    `build` and `call` and pass the subclass as `feed_forward_class` to an
    encoder, a decoder or a `Transformer`.

    Args:
        d_ff: Width between the two transformations.
        activation: Between them, as for `keras.activations.get`.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `[B, T, d_model]`, B = batch, T = length.

    Returns:
        `[B, T, d_model]`.

    Example:

    >>> import keras, keras_transformer as kt
    >>> feed_forward = kt.layers.FeedForward(d_ff=2048)
    >>> tuple(feed_forward(keras.random.normal((2, 10, 512))).shape)
    (2, 10, 512)
    """

    def __init__(
        self, d_ff: int, activation: str = "relu", **kwargs: Any
    ) -> None:
        check_sizes(d_ff=d_ff)
        super().__init__(**kwargs)
        self.d_ff = d_ff
        self.activation = activation

    def build(self, input_shape: tuple) -> None:
        inner, outer = (policy_of(self, x) for x in ("/inner", "/outer"))
        self.inner = keras.layers.Dense(
            self.d_ff, self.activation, dtype=inner, name="inner"
        )
        self.inner.build(input_shape)
        d_model = input_shape[-1]
        self.outer = keras.layers.Dense(d_model, dtype=outer, name="outer")
        self.outer.build((*input_shape[:-1], self.d_ff))

    def call(self, x: Any) -> Any:
        return self.outer(self.inner(x))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, FeedForward)}
