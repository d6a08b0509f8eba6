"""Decoder layer and decoder (section 3.1, right half of Figure 1).

Letters: B = batch, T = target length, S = source length, H = heads,
P = keys cached so far.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_transformer.layers.block import Block, Stack


class LayerCache(NamedTuple):
    """What a decoder layer keeps between decoding steps."""

    self_key: Any  # [B, H, P, d_k], grows with each step, up to the window
    self_value: Any  # [B, H, P, d_v]
    cross_key: Any  # [B, H, S, d_k], computed once from the memory
    cross_value: Any  # [B, H, S, d_v]


@keras.saving.register_keras_serializable(package="keras_transformer")
class DecoderLayer(Block):
    """Self-attention, attention to the memory, feed-forward network.

    Each of the three is wrapped in a `Residual`. `call` takes a whole target;
    `init_cache` and `decode_step` compute the same position by position, with
    a cache that is passed in and returned.

    Masks that Keras attached to `x` and `memory` are combined with the masks
    that are passed; that of `x` is passed on with the output.

    Args:
        num_heads: Number of attention heads.
        d_ff: Width inside the feed-forward network.
        d_k: Width of one head's keys. Default: d_model / `num_heads`.
        d_v: Width of one head's values. Default: d_model / `num_heads`.
        dropout: Rate on the output of the three sub-layers.
        attention_window: Positions, up to its own, that each position attends
            to, as in `RestrictedSelfAttention`; by default all. A causal mask
            is then not needed, and costs time.
        attention_class: `MultiHeadAttention` or a subclass.
        feed_forward_class: `FeedForward` or a layer with its arguments.
        residual_class: `Residual` or a subclass, e.g. for pre-norm.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `[B, T, d_model]`.
        memory: Output of the encoder, `[B, S, d_model]`.
        attention_mask: Boolean `[T, T]` or `[B, T, T]`, where any size may be
            1; True = attend. Pass a causal mask: the layer does not add one.
        cross_attention_mask: Boolean `[T, S]` or `[B, T, S]`, likewise.
        x_mask: Boolean `[B, T]`, True where `x` may be attended to. Default:
            the mask that Keras attached to `x`, if any.
        memory_mask: Boolean `[B, S]`, True where `memory` may be attended to.
            Default: the mask that Keras attached to `memory`, if any.

    Returns:
        `[B, T, d_model]`.

    Example:

    >>> import keras, keras_transformer as kt
    >>> layer = kt.layers.DecoderLayer(num_heads=8, d_ff=2048)
    >>> x = keras.random.normal((2, 7, 512))
    >>> memory = keras.random.normal((2, 10, 512))
    >>> tuple(layer(x, memory, kt.masks.causal_mask(7)).shape)
    (2, 7, 512)
    """

    def build(self, x_shape: tuple, memory_shape: tuple) -> None:
        """Creates the three sub-layers."""
        self.self_attention = self._self_attention(
            "self_attention", x_shape, causal=True
        )
        self.self_attention_norm = self._residual(
            "self_attention_norm", x_shape
        )
        self.cross_attention = self._attention(
            "cross_attention", x_shape, memory_shape
        )
        self.cross_attention_norm = self._residual(
            "cross_attention_norm", x_shape
        )
        self.feed_forward = self._feed_forward("feed_forward", x_shape)
        self.feed_forward_norm = self._residual("feed_forward_norm", x_shape)

    def call(
        self,
        x: Any,
        memory: Any,
        attention_mask: Any = None,
        cross_attention_mask: Any = None,
        x_mask: Any = None,
        memory_mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        def attend_to_self(x: Any) -> Any:
            return self.self_attention.call(x, x, attention_mask, x_mask)

        def attend_to_memory(x: Any) -> Any:
            return self.cross_attention.call(
                x, memory, cross_attention_mask, memory_mask
            )

        return self._sublayers(x, attend_to_self, attend_to_memory, training)

    def call_with_scores(
        self,
        x: Any,
        memory: Any,
        attention_mask: Any = None,
        cross_attention_mask: Any = None,
        x_mask: Any = None,
        memory_mask: Any = None,
        training: bool | None = None,
    ) -> tuple[Any, Any, Any]:
        """Computes what `call` does, and returns the attention scores too.

        Args:
            x: `[B, T, d_model]`.
            memory: `[B, S, d_model]`.
            attention_mask: As in `call`.
            cross_attention_mask: As in `call`.
            x_mask: As in `call`, but Keras does not fill it in.
            memory_mask: As in `call`, but Keras does not fill it in.
            training: As in `call`.

        Returns:
            The output `[B, T, d_model]`, and the scores of self-attention
            `[B, H, T, T]` and of cross-attention `[B, H, T, S]` in float32.
        """
        self_scores = cross_scores = None

        def attend_to_self(x: Any) -> Any:
            nonlocal self_scores
            output, self_scores = self.self_attention.call_with_scores(
                x, x, attention_mask, x_mask
            )
            return output

        def attend_to_memory(x: Any) -> Any:
            nonlocal cross_scores
            output, cross_scores = self.cross_attention.call_with_scores(
                x, memory, cross_attention_mask, memory_mask
            )
            return output

        output = self._sublayers(x, attend_to_self, attend_to_memory, training)
        return output, self_scores, cross_scores

    def init_cache(self, memory: Any) -> LayerCache:
        """Returns the cache before the first decoding step.

        Args:
            memory: `[B, S, d_model]`.
        """
        cross_key, cross_value = self.cross_attention.project_memory(memory)
        # Self-attention has the heads and widths of cross-attention.
        return LayerCache(
            cross_key[:, :, :0], cross_value[:, :, :0], cross_key, cross_value
        )

    def decode_step(
        self,
        x: Any,
        cache: LayerCache,
        attention_mask: Any = None,
        cross_attention_mask: Any = None,
    ) -> tuple[Any, LayerCache]:
        """Decodes the next T positions.

        With an `attention_window` of r positions, x is one position of T
        hypotheses that are decoded side by side, and the cache keeps the keys
        of the last r positions, which are r T.

        Args:
            x: `[B, T, d_model]`.
            cache: From `init_cache` or the previous step; it holds P keys.
            attention_mask: Boolean, broadcastable to `[B, T, P + T]`; with an
                `attention_window`, to the last r T of these keys.
            cross_attention_mask: Boolean, broadcastable to `[B, T, S]`.

        Returns:
            `[B, T, d_model]`, and the cache with the T positions appended.
        """

        def attend_to_self(x: Any) -> Any:
            nonlocal cache
            attention = self.self_attention
            key, value = attention.project_memory(x)
            key = ops.concatenate([cache.self_key, key], axis=2)
            value = ops.concatenate([cache.self_value, value], axis=2)
            if self.attention_window is not None:
                kept = self.attention_window * ops.shape(x)[1]
                key, value = key[:, :, -kept:], value[:, :, -kept:]
            cache = cache._replace(self_key=key, self_value=value)
            output, _ = attention.attend(x, key, value, attention_mask)
            return output

        def attend_to_memory(x: Any) -> Any:
            output, _ = self.cross_attention.attend(
                x, cache.cross_key, cache.cross_value, cross_attention_mask
            )
            return output

        output = self._sublayers(x, attend_to_self, attend_to_memory)
        return output, cache

    def _sublayers(
        self,
        x: Any,
        attend_to_self: Callable[[Any], Any],
        attend_to_memory: Callable[[Any], Any],
        training: bool | None = None,
    ) -> Any:
        x = self.self_attention_norm(
            x, sublayer=attend_to_self, training=training
        )
        x = self.cross_attention_norm(
            x, sublayer=attend_to_memory, training=training
        )
        return self.feed_forward_norm(
            x, sublayer=self.feed_forward, training=training
        )

    def compute_output_shape(
        self, x_shape: tuple, memory_shape: tuple
    ) -> tuple:
        return x_shape


@keras.saving.register_keras_serializable(package="keras_transformer")
class Decoder(Stack):
    """A stack of decoder layers.

    Masks that Keras attaches to tensors are treated as in `DecoderLayer`.

    Args:
        num_layers: Number of layers.
        num_heads: Number of attention heads.
        d_ff: Width inside the feed-forward networks.
        d_k: Width of one head's keys. Default: d_model / `num_heads`.
        d_v: Width of one head's values. Default: d_model / `num_heads`.
        dropout: Rate on the output of every sub-layer.
        attention_window: As in `DecoderLayer`.
        **kwargs: `attention_class`, `feed_forward_class` and `residual_class`
            as in `DecoderLayer`, and arguments of `keras.layers.Layer`.

    Call arguments:
        x: Embedded target, `[B, T, d_model]`.
        memory: Output of the encoder, `[B, S, d_model]`.
        attention_mask: As in `DecoderLayer`.
        cross_attention_mask: As in `DecoderLayer`.
        x_mask: As in `DecoderLayer`.
        memory_mask: As in `DecoderLayer`.

    Returns:
        `[B, T, d_model]`.

    Example:

    >>> import keras, keras_transformer as kt
    >>> decoder = kt.layers.Decoder(num_layers=2, num_heads=8, d_ff=2048)
    >>> x = keras.random.normal((2, 7, 512))
    >>> memory = keras.random.normal((2, 10, 512))
    >>> tuple(decoder(x, memory, kt.masks.causal_mask(7)).shape)
    (2, 7, 512)
    """

    def build(self, x_shape: tuple, memory_shape: tuple) -> None:
        """Creates the layers."""
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
    ) -> Any:
        for layer in self.layers:
            x = layer(
                x,
                memory,
                attention_mask,
                cross_attention_mask,
                x_mask=x_mask,
                memory_mask=memory_mask,
                training=training,
            )
        return self._finish(x)

    def call_with_scores(
        self,
        x: Any,
        memory: Any,
        attention_mask: Any = None,
        cross_attention_mask: Any = None,
        x_mask: Any = None,
        memory_mask: Any = None,
    ) -> tuple[Any, list[Any], list[Any]]:
        """Computes what `call` does, and returns the attention scores too.

        Args:
            x: `[B, T, d_model]`.
            memory: `[B, S, d_model]`.
            attention_mask: As in `DecoderLayer`.
            cross_attention_mask: As in `DecoderLayer`.
            x_mask: As in `DecoderLayer`, but Keras does not fill it in.
            memory_mask: As in `DecoderLayer`, but Keras does not fill it in.

        Returns:
            The output `[B, T, d_model]`, and two lists with the scores of
            every layer in float32: self-attention `[B, H, T, T]` and
            cross-attention `[B, H, T, S]`.
        """
        masks = (attention_mask, cross_attention_mask, x_mask, memory_mask)
        self_scores, cross_scores = [], []
        for layer in self.layers:
            x, to_self, to_memory = layer.call_with_scores(x, memory, *masks)
            self_scores.append(to_self)
            cross_scores.append(to_memory)
        return self._finish(x), self_scores, cross_scores

    def init_cache(self, memory: Any) -> tuple[LayerCache, ...]:
        """Returns the cache of every layer before the first decoding step.

        Args:
            memory: `[B, S, d_model]`.
        """
        return tuple(layer.init_cache(memory) for layer in self.layers)

    def decode_step(
        self,
        x: Any,
        caches: tuple[LayerCache, ...],
        attention_mask: Any = None,
        cross_attention_mask: Any = None,
    ) -> tuple[Any, tuple[LayerCache, ...]]:
        """Decodes the next T positions.

        Args:
            x: `[B, T, d_model]`.
            caches: From `init_cache` or the previous step.
            attention_mask: As in `DecoderLayer.decode_step`.
            cross_attention_mask: Boolean, broadcastable to `[B, T, S]`.

        Returns:
            `[B, T, d_model]`, and the caches with the T positions appended.
        """
        grown = []
        for layer, cache in zip(self.layers, caches, strict=True):
            x, cache = layer.decode_step(
                x, cache, attention_mask, cross_attention_mask
            )
            grown.append(cache)
        return self._finish(x), tuple(grown)

    def compute_output_shape(
        self, x_shape: tuple, memory_shape: tuple
    ) -> tuple:
        return x_shape
