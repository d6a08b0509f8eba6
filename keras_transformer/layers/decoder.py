"""Decoder layer and decoder (section 3.1, right half of Figure 1).

They take whole targets; `keras_transformer.decoding.step` decodes position by
position with the same sub-layers.

Letters: B = batch, T = target length, S = source length.
"""

from typing import Any

import keras

from keras_transformer.layers.transformer_layer import Stack, TransformerLayer


@keras.saving.register_keras_serializable(package="keras_transformer")
class DecoderLayer(TransformerLayer):
    """Self-attention, attention to the memory, feed-forward network.

    Each of the three is wrapped in a `Residual`. Masks that Keras attached to
    `x` and `memory` are combined with the masks that are passed; the mask of
    `x` is passed on with the output.

    Args:
        num_heads: As in `EncoderLayer`, and so are all arguments after it. But
            an `attention_window` ends at each position, and needs no causal
            mask.

    Call arguments:
        x: `[B, T, d_model]`.
        memory: Output of the encoder, `[B, S, d_model]`.
        attention_mask: Boolean `[T, T]` or `[B, T, T]`, where any size may be
            1; True = attend. Pass a causal mask: the layer does not add one.
        cross_attention_mask: Boolean `[T, S]` or `[B, T, S]`, of the memory.
        x_mask: Boolean `[B, T]`, True where `x` may be attended to. Default:
            the mask that Keras attached to `x`, if any.
        memory_mask: Boolean `[B, S]`, True where `memory` may be attended to.
            Default: the mask that Keras attached to `memory`, if any.
        return_attention_scores: Whether the scores are returned too.

    Returns:
        `[B, T, d_model]`; and the scores `[B, H, T, T]` of self-attention and
        `[B, H, T, S]` of cross-attention, in float32, where H are the heads.

    Example:

    >>> import keras, keras_transformer as kt
    >>> layer = kt.layers.DecoderLayer(num_heads=8, d_ff=2048)
    >>> x = keras.random.normal((2, 7, 512))
    >>> memory = keras.random.normal((2, 10, 512))
    >>> tuple(layer(x, memory, kt.masks.causal_mask(7)).shape)
    (2, 7, 512)
    """

    def build(self, x_shape: tuple, memory_shape: tuple) -> None:
        self._build_self_attention(x_shape, causal=True)
        self.cross_attention = self._build_attention(
            "cross_attention", self.attention_class, x_shape, memory_shape
        )
        self.cross_attention_norm = self._build_residual(
            "cross_attention_norm", x_shape
        )
        self._build_feed_forward(x_shape)

    def call(
        self,
        x: Any,
        memory: Any,
        attention_mask: Any = None,
        cross_attention_mask: Any = None,
        x_mask: Any = None,
        memory_mask: Any = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        scores: list | None = [] if return_attention_scores else None
        x = self._attend(
            self.self_attention,
            self.self_attention_norm,
            x,
            attention_mask=attention_mask,
            memory_mask=x_mask,
            training=training,
            scores=scores,
        )
        x = self._attend(
            self.cross_attention,
            self.cross_attention_norm,
            x,
            memory=memory,
            attention_mask=cross_attention_mask,
            memory_mask=memory_mask,
            training=training,
            scores=scores,
        )
        x = self._feed_forward(x, training)
        return x if scores is None else (x, *scores)


@keras.saving.register_keras_serializable(package="keras_transformer")
class Decoder(Stack):
    """A stack of decoder layers.

    Masks that Keras attaches to tensors are treated as in `DecoderLayer`.

    Args:
        num_layers: Number of layers.
        num_heads, d_ff: As in `DecoderLayer`.
        **kwargs: The other arguments of `DecoderLayer`.

    Call arguments:
        x: Embedded target, `[B, T, d_model]`.
        memory: Output of the encoder, `[B, S, d_model]`.
        attention_mask: As in `DecoderLayer`, and so are
            `cross_attention_mask`, `x_mask`, `memory_mask` and
            `return_attention_scores`.

    Returns:
        `[B, T, d_model]`; and a list of the layers' scores for each of the
        two attentions.

    Example:

    >>> import keras, keras_transformer as kt
    >>> decoder = kt.layers.Decoder(num_layers=2, num_heads=8, d_ff=2048)
    >>> x = keras.random.normal((2, 7, 512))
    >>> memory = keras.random.normal((2, 10, 512))
    >>> tuple(decoder(x, memory, kt.masks.causal_mask(7)).shape)
    (2, 7, 512)
    """

    def build(self, x_shape: tuple, memory_shape: tuple) -> None:
        self._build_layers(DecoderLayer, x_shape, memory_shape)

    def call(
        self,
        x: Any,
        memory: Any,
        attention_mask: Any = None,
        cross_attention_mask: Any = None,
        x_mask: Any = None,
        memory_mask: Any = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        return self._call_layers(
            x,
            memory,
            attention_mask,
            cross_attention_mask,
            x_mask=x_mask,
            memory_mask=memory_mask,
            training=training,
            return_attention_scores=return_attention_scores,
        )
