"""Encoder layer and encoder (section 3.1, left half of Figure 1).

Letters: B = batch, S = source length.
"""

from typing import Any

import keras

from keras_transformer.layers.block import Block, Stack, document_arguments
from keras_transformer.masks import combine_masks


@keras.saving.register_keras_serializable(package="keras_transformer")
@document_arguments
class EncoderLayer(Block):
    """Self-attention, then a feed-forward network, each in a `Residual`.

    A mask that Keras attached to `x` is combined with `attention_mask` and
    passed on with the output.

    Args:
        {arguments}

    Call arguments:
        x: `[B, S, d_model]`.
        attention_mask: Boolean `[S, S]` or `[B, S, S]`, where any size may be
            1; True = attend.
        mask: Boolean `[B, S]`, True where `x` may be attended to. Default:
            the mask that Keras attached to `x`, if any.
        x_mask: The same. Keras fills in this argument instead of `mask` when
            an `attention_mask` is passed.

    Returns:
        `[B, S, d_model]`.

    Example:

    >>> import keras, keras_transformer as kt
    >>> layer = kt.layers.EncoderLayer(num_heads=8, d_ff=2048)
    >>> tuple(layer(keras.random.normal((2, 10, 512))).shape)
    (2, 10, 512)
    """

    def build(self, input_shape: tuple) -> None:
        self._build_self_attention(input_shape, causal=False)
        self._build_feed_forward(input_shape)

    def call(
        self,
        x: Any,
        attention_mask: Any = None,
        mask: Any = None,
        x_mask: Any = None,
        training: bool | None = None,
        scores: list | None = None,  # for `call_with_scores`
    ) -> Any:
        masks = (attention_mask, combine_masks(mask, x_mask))
        x = self._attend("self_attention", x, None, masks, training, scores)
        return self.feed_forward_norm(
            x, sublayer=self.feed_forward, training=training
        )


@keras.saving.register_keras_serializable(package="keras_transformer")
@document_arguments
class Encoder(Stack):
    """A stack of encoder layers.

    Masks that Keras attaches to tensors are treated as in `EncoderLayer`.

    Args:
        num_layers: Number of layers.
        {arguments}

    Call arguments:
        x: Embedded source, `[B, S, d_model]`.
        attention_mask: As in `EncoderLayer`, and so are `mask` and `x_mask`.

    Returns:
        `[B, S, d_model]`.

    Example:

    >>> import keras, keras_transformer as kt
    >>> encoder = kt.layers.Encoder(num_layers=2, num_heads=8, d_ff=2048)
    >>> tuple(encoder(keras.random.normal((2, 10, 512))).shape)
    (2, 10, 512)
    """

    def build(self, input_shape: tuple) -> None:
        self._build_layers(EncoderLayer, input_shape)

    def call(
        self,
        x: Any,
        attention_mask: Any = None,
        mask: Any = None,
        x_mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        mask = combine_masks(mask, x_mask)
        for layer in self.layers:
            x = layer(x, attention_mask, x_mask=mask, training=training)
        return self._normalize(x)
