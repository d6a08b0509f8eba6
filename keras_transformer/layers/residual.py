"""The residual connection around every sub-layer (sections 3.1 and 5.4)."""

from collections.abc import Callable
from typing import Any

import keras

from keras_transformer.layers.common import SameShape, arguments_of
from keras_transformer.support.fields import FRACTION, check_values


@keras.saving.register_keras_serializable(package="keras_transformer")
class Residual(SameShape):
    """LayerNorm(x + Dropout(Sublayer(x))): post-norm, as in the paper.

    With `norm_first` it is x + Dropout(Sublayer(LayerNorm(x))): pre-norm.

    The "Add & Norm" boxes of Figure 1. Only `call` decides the order of
    sub-layer, dropout, residual connection and normalization. Override it for
    a different order, and pass the subclass as `residual_class` to an
    encoder, a decoder or a `Transformer`.

    Use it within the `call` of a layer that holds the weights of the
    sub-layer. A mask that `x` carries is passed on.

    Args:
        dropout: Rate on the sub-layer's output.
        norm_first: Whether the input of the sub-layer is normalized, instead
            of the sum. An encoder or a decoder then normalizes its output.
        epsilon: Added to the variance in the normalization.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `[B, T, d_model]`, B = batch, T = length.
        sublayer: A callable from a `[B, T, d_model]` tensor to a tensor of
            the same shape. Pass it by keyword: Keras reserves positional
            arguments for tensors.

    Returns:
        `[B, T, d_model]`.

    Example:

    >>> import keras, keras_transformer as kt
    >>> residual = kt.layers.Residual(dropout=0.1)
    >>> feed_forward = kt.layers.FeedForward(d_ff=2048)
    >>> x = keras.random.normal((2, 10, 512))
    >>> tuple(residual(x, sublayer=feed_forward).shape)
    (2, 10, 512)
    """

    def __init__(
        self,
        dropout: float = 0.0,
        norm_first: bool = False,
        epsilon: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        check_values(FRACTION, dropout=dropout)
        super().__init__(**kwargs)
        self.dropout = dropout
        self.norm_first = norm_first
        self.epsilon = epsilon

    @property
    def needs_final_norm(self) -> bool:
        """Whether a stack of these normalizes its output once more.

        A subclass whose output is not normalized sets it to True.
        """
        return self.norm_first

    def build(self, input_shape: tuple) -> None:
        self.dropout_layer = keras.layers.Dropout(
            self.dropout, dtype=self.dtype_policy, name="dropout"
        )
        self.norm = self.make_norm("norm")
        self.norm.build(input_shape)

    def make_norm(self, name: str) -> keras.layers.Layer:
        """Returns a normalization, of this layer or of a stack's output.

        Override it for a different normalization.
        """
        return keras.layers.LayerNormalization(
            epsilon=self.epsilon, dtype=self.dtype_policy, name=name
        )

    def call(
        self,
        x: Any,
        sublayer: Callable[[Any], Any],
        training: bool | None = None,
    ) -> Any:
        output = sublayer(self.norm(x) if self.norm_first else x)
        total = x + self.dropout_layer(output, training=training)
        return total if self.norm_first else self.norm(total)

    def symbolic_call(self, *args: Any, **kwargs: Any) -> Any:
        """Raises a ValueError: a functional model would miss weights."""
        raise ValueError(
            f"{type(self).__name__} cannot be called on the symbolic tensors "
            "of a functional model, because the model would miss the weights "
            "of the sub-layer. Call it within the `call` of a layer that holds "
            "the sub-layer, as EncoderLayer does."
        )

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, Residual)}
