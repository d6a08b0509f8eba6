"""Encoder layer and encoder (section 3.1, left half of Figure 1).

Letters: B = batch, S = source length, H = heads.
"""

from typing import Any

import keras

from keras_transformer.layers.block import Block, Stack


@keras.saving.register_keras_serializable(package="keras_transformer")
class EncoderLayer(Block):
    """Self-attention, then a feed-forward network, each in an `AddNorm`.

    Args:
        num_heads: Number of attention heads.
        d_ff: Width inside the feed-forward network.
        d_k: Width of one head's keys. Default: d_model / `num_heads`.
        d_v: Width of one head's values. Default: d_model / `num_heads`.
        dropout: Rate on the output of both sub-layers.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `[B, S, d_model]`.
        attention_mask: Boolean, broadcastable to `[B, S, S]`; True = attend.

    Returns:
        `[B, S, d_model]`.

    Example:

    >>> import keras, keras_transformer as kt
    >>> layer = kt.layers.EncoderLayer(num_heads=8, d_ff=2048)
    >>> tuple(layer(keras.random.normal((2, 10, 512))).shape)
    (2, 10, 512)
    """

    def build(self, input_shape: tuple) -> None:
        """Creates the two sub-layers."""
        self.self_attention = self._attention(
            "self_attention", input_shape, input_shape
        )
        self.self_attention_norm = self._add_norm(
            "self_attention_norm", input_shape
        )
        self.feed_forward = self._feed_forward("feed_forward", input_shape)
        self.feed_forward_norm = self._add_norm(
            "feed_forward_norm", input_shape
        )

    def call(
        self,
        x: Any,
        attention_mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        output = self.self_attention(x, x, attention_mask)
        x = self.self_attention_norm(x, output, training=training)
        return self.feed_forward_norm(
            x, self.feed_forward(x), training=training
        )

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape


@keras.saving.register_keras_serializable(package="keras_transformer")
class Encoder(Stack):
    """A stack of encoder layers.

    Args:
        num_layers: Number of layers.
        num_heads: As in `EncoderLayer`, and so the rest.
        d_ff: Width inside the feed-forward networks.
        d_k: Width of one head's keys. Default: d_model / `num_heads`.
        d_v: Width of one head's values. Default: d_model / `num_heads`.
        dropout: Rate on the output of every sub-layer.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: Embedded source, `[B, S, d_model]`.
        attention_mask: Boolean, broadcastable to `[B, S, S]`; True = attend.

    Returns:
        `[B, S, d_model]`.

    Example:

    >>> import keras, keras_transformer as kt
    >>> encoder = kt.layers.Encoder(num_layers=2, num_heads=8, d_ff=2048)
    >>> tuple(encoder(keras.random.normal((2, 10, 512))).shape)
    (2, 10, 512)
    """

    def build(self, input_shape: tuple) -> None:
        """Creates the layers."""
        self.layers = self._make_layers(EncoderLayer, input_shape)

    def call(
        self,
        x: Any,
        attention_mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        for layer in self.layers:
            x = layer(x, attention_mask, training=training)
        return x

    def weights_of(self, x: Any, attention_mask: Any = None) -> list[Any]:
        """Returns each layer's attention weights, `[B, H, S, S]` float32."""
        weights = []
        for layer in self.layers:
            weights.append(
                layer.self_attention.weights_of(x, x, attention_mask)
            )
            x = layer(x, attention_mask)
        return weights

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape
