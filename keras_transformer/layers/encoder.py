"""Encoder layer and encoder (section 3.1, left half of Figure 1).

Letters: B = batch, S = source length.
"""

from typing import Any

import keras

from keras_transformer.layers.transformer_layer import Stack, TransformerLayer
from keras_transformer.masks import combine_masks


@keras.saving.register_keras_serializable(package="keras_transformer")
class EncoderLayer(TransformerLayer):
    """Self-attention, then a feed-forward network, each in a `Residual`.

    A mask that Keras attached to `x` is combined with `attention_mask` and
    passed on with the output.

    Args:
        num_heads: Number of attention heads.
        d_ff: Width inside the feed-forward network.
        d_k: Width of a head's queries and keys. Default: d_model / `num_heads`.
        d_v: Width of a head's values. Default: d_model / `num_heads`.
        dropout: Rate on the output of every sub-layer.
        attention_window: Number of positions that self-attention is restricted
            to, centred on each position; see `RestrictedSelfAttention`. By
            default all.
        attention_bias: Whether the projections of attention have biases.
        activation: Activation of the feed-forward network.
        norm_first: Whether sub-layers normalize their input, as in `Residual`.
        epsilon: Added to the variance in layer normalization.
        attention_class: `MultiHeadAttention` or a subclass, which overrides
            `attend` or `project_memory`.
        feed_forward_class: `FeedForward` or a layer with its arguments.
        residual_class: `Residual` or a subclass. Each of the three may also be
            the name under which Keras registered the class.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `[B, S, d_model]`.
        attention_mask: Boolean `[S, S]` or `[B, S, S]`, where any size may be
            1; True = attend.
        mask: Boolean `[B, S]`, True where `x` may be attended to. Default:
            the mask that Keras attached to `x`, if any.
        x_mask: The same. Keras fills in this argument instead of `mask` when
            an `attention_mask` is passed.
        return_attention_scores: Whether the scores are returned too.

    Returns:
        `[B, S, d_model]`; and the scores `[B, H, S, S]`, in float32, where H
        are the heads.

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
        return_attention_scores: bool = False,
    ) -> Any:
        scores: list | None = [] if return_attention_scores else None
        x = self._attend(
            self.self_attention,
            self.self_attention_norm,
            x,
            attention_mask=attention_mask,
            memory_mask=combine_masks(mask, x_mask),
            training=training,
            scores=scores,
        )
        x = self._feed_forward(x, training)
        return x if scores is None else (x, *scores)


@keras.saving.register_keras_serializable(package="keras_transformer")
class Encoder(Stack):
    """A stack of encoder layers.

    Masks that Keras attaches to tensors are treated as in `EncoderLayer`.

    Args:
        num_layers: Number of layers.
        num_heads, d_ff: As in `EncoderLayer`.
        **kwargs: The other arguments of `EncoderLayer`.

    Call arguments:
        x: Embedded source, `[B, S, d_model]`.
        attention_mask: As in `EncoderLayer`, and so are `mask`, `x_mask` and
            `return_attention_scores`.

    Returns:
        `[B, S, d_model]`; and a list of the layers' scores.

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
        return_attention_scores: bool = False,
    ) -> Any:
        return self._call_layers(
            x,
            attention_mask,
            x_mask=combine_masks(mask, x_mask),
            training=training,
            return_attention_scores=return_attention_scores,
        )
