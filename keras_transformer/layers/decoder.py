"""Decoder layer and decoder (section 3.1, right half of Figure 1).

Letters: B = batch, T = target length, S = source length, H = heads,
P = keys cached so far.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_transformer.layers.block import Block, Stack


class LayerCache(NamedTuple):
    """What a decoder layer keeps between decoding steps."""

    self_key: Any  # [B, H, P, d_k], grows by the positions of each step
    self_value: Any  # [B, H, P, d_v]
    cross_key: Any  # [B, H, S, d_k], computed once from the memory
    cross_value: Any  # [B, H, S, d_v]


@keras.saving.register_keras_serializable(package="keras_transformer")
class DecoderLayer(Block):
    """Self-attention, attention to the memory, feed-forward network.

    Each of the three is wrapped in an `AddNorm`. `call` sees a whole target;
    `start` and `step` give the same results position by position, with a
    cache that goes in and comes back.

    Args:
        num_heads: Number of attention heads.
        d_ff: Width inside the feed-forward network.
        d_k: Width of one head's keys. Default: d_model / `num_heads`.
        d_v: Width of one head's values. Default: d_model / `num_heads`.
        dropout: Rate on the output of the three sub-layers.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `[B, T, d_model]`.
        memory: Output of the encoder, `[B, S, d_model]`.
        attention_mask: Boolean, broadcastable to `[B, T, T]`; True = attend.
            Pass a causal mask: the layer does not add one.
        cross_attention_mask: Boolean, broadcastable to `[B, T, S]`.

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
        self.self_attention = self._attention(
            "self_attention", x_shape, x_shape
        )
        self.self_attention_norm = self._add_norm(
            "self_attention_norm", x_shape
        )
        self.cross_attention = self._attention(
            "cross_attention", x_shape, memory_shape
        )
        self.cross_attention_norm = self._add_norm(
            "cross_attention_norm", x_shape
        )
        self.feed_forward = self._feed_forward("feed_forward", x_shape)
        self.feed_forward_norm = self._add_norm("feed_forward_norm", x_shape)

    def call(
        self,
        x: Any,
        memory: Any,
        attention_mask: Any = None,
        cross_attention_mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        key, value = self.self_attention.project_memory(x)
        everything = LayerCache(
            key, value, *self.cross_attention.project_memory(memory)
        )
        return self._sublayers(
            x, everything, attention_mask, cross_attention_mask, training
        )

    def start(self, memory: Any) -> LayerCache:
        """Returns the cache before the first step.

        Args:
            memory: `[B, S, d_model]`.
        """
        cross_key, cross_value = self.cross_attention.project_memory(memory)
        # Self-attention has the heads and widths of cross-attention.
        return LayerCache(
            cross_key[:, :, :0], cross_value[:, :, :0], cross_key, cross_value
        )

    def step(
        self,
        x: Any,
        cache: LayerCache,
        attention_mask: Any = None,
        cross_attention_mask: Any = None,
    ) -> tuple[Any, LayerCache]:
        """Decodes the next T positions.

        Args:
            x: `[B, T, d_model]`.
            cache: Of the steps before; it holds P keys.
            attention_mask: Boolean, broadcastable to `[B, T, P + T]`.
            cross_attention_mask: Boolean, broadcastable to `[B, T, S]`.

        Returns:
            `[B, T, d_model]`, and the cache with the T positions appended.
        """
        key, value = self.self_attention.project_memory(x)
        cache = cache._replace(
            self_key=ops.concatenate([cache.self_key, key], axis=2),
            self_value=ops.concatenate([cache.self_value, value], axis=2),
        )
        x = self._sublayers(x, cache, attention_mask, cross_attention_mask)
        return x, cache

    def _sublayers(
        self,
        x: Any,
        cache: LayerCache,
        attention_mask: Any,
        cross_attention_mask: Any,
        training: bool | None = None,
    ) -> Any:
        output = self.self_attention.attend(
            x, cache.self_key, cache.self_value, attention_mask
        )
        x = self.self_attention_norm(x, output, training=training)
        output = self.cross_attention.attend(
            x, cache.cross_key, cache.cross_value, cross_attention_mask
        )
        x = self.cross_attention_norm(x, output, training=training)
        return self.feed_forward_norm(
            x, self.feed_forward(x), training=training
        )

    def weights_of(
        self,
        x: Any,
        memory: Any,
        attention_mask: Any = None,
        cross_attention_mask: Any = None,
    ) -> tuple[Any, Any]:
        """Returns the weights of self- and of cross-attention.

        Args:
            x: `[B, T, d_model]`.
            memory: `[B, S, d_model]`.
            attention_mask: As in `call`.
            cross_attention_mask: As in `call`.

        Returns:
            `[B, H, T, T]` and `[B, H, T, S]`, float32.
        """
        weights = self.self_attention.weights_of(x, x, attention_mask)
        output = self.self_attention(x, x, attention_mask)
        x = self.self_attention_norm(x, output)
        return weights, self.cross_attention.weights_of(
            x, memory, cross_attention_mask
        )

    def compute_output_shape(
        self, x_shape: tuple, memory_shape: tuple
    ) -> tuple:
        return x_shape


@keras.saving.register_keras_serializable(package="keras_transformer")
class Decoder(Stack):
    """A stack of decoder layers.

    Args:
        num_layers: Number of layers.
        num_heads: As in `DecoderLayer`, and so the rest.
        d_ff: Width inside the feed-forward networks.
        d_k: Width of one head's keys. Default: d_model / `num_heads`.
        d_v: Width of one head's values. Default: d_model / `num_heads`.
        dropout: Rate on the output of every sub-layer.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: Embedded target, `[B, T, d_model]`.
        memory: Output of the encoder, `[B, S, d_model]`.
        attention_mask: Boolean, broadcastable to `[B, T, T]`; True = attend.
        cross_attention_mask: Boolean, broadcastable to `[B, T, S]`.

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
        self.layers = self._make_layers(DecoderLayer, x_shape, memory_shape)

    def call(
        self,
        x: Any,
        memory: Any,
        attention_mask: Any = None,
        cross_attention_mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        for layer in self.layers:
            x = layer(
                x,
                memory,
                attention_mask,
                cross_attention_mask,
                training=training,
            )
        return x

    def start(self, memory: Any) -> tuple[LayerCache, ...]:
        """Returns every layer's cache before the first step."""
        return tuple(layer.start(memory) for layer in self.layers)

    def step(
        self,
        x: Any,
        caches: tuple[LayerCache, ...],
        attention_mask: Any = None,
        cross_attention_mask: Any = None,
    ) -> tuple[Any, tuple[LayerCache, ...]]:
        """Decodes the next positions; see `DecoderLayer.step`."""
        grown = []
        for layer, cache in zip(self.layers, caches, strict=True):
            x, cache = layer.step(
                x, cache, attention_mask, cross_attention_mask
            )
            grown.append(cache)
        return x, tuple(grown)

    def weights_of(
        self,
        x: Any,
        memory: Any,
        attention_mask: Any = None,
        cross_attention_mask: Any = None,
    ) -> tuple[list[Any], list[Any]]:
        """Returns each layer's self- and cross-attention weights.

        Returns:
            Two lists with an entry a layer: `[B, H, T, T]` and
            `[B, H, T, S]`, float32.
        """
        masks = (attention_mask, cross_attention_mask)
        own, cross = [], []
        for layer in self.layers:
            to_self, to_memory = layer.weights_of(x, memory, *masks)
            own.append(to_self)
            cross.append(to_memory)
            x = layer(x, memory, *masks)
        return own, cross

    def compute_output_shape(
        self, x_shape: tuple, memory_shape: tuple
    ) -> tuple:
        return x_shape
