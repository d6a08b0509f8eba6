"""The arguments and sub-layers that encoder and decoder layers share.

Every attention, feed-forward network and residual wrapper of an encoder, a
decoder or a whole `Transformer` is made by `Block` from the classes that it
was given.
"""

from typing import Any

import keras

from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.checks import (
    check_dropout,
    check_head_sizes,
    check_positive,
)
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.residual import Residual
from keras_transformer.layers.restricted_attention import (
    RestrictedSelfAttention,
)


class Block(keras.layers.Layer):
    """Holds the arguments of a layer, and makes its built sub-layers.

    Args:
        num_heads: Number of attention heads.
        d_ff: Width inside the feed-forward network.
        d_k: Width of one head's keys. Default: d_model / `num_heads`.
        d_v: Width of one head's values. Default: d_model / `num_heads`.
        dropout: Rate on the output of every sub-layer.
        attention_window: Positions that self-attention is restricted to, as
            in `RestrictedSelfAttention`; by default all.
        attention_class: `MultiHeadAttention` or a subclass, which overrides
            `attend` or `project_memory`.
        feed_forward_class: `FeedForward` or a layer with its arguments.
        residual_class: `Residual` or a subclass. Each of the three may also
            be the name under which Keras registered the class.
        **kwargs: Arguments of `keras.layers.Layer`.
    """

    def __init__(
        self,
        num_heads: int,
        d_ff: int,
        d_k: int | None = None,
        d_v: int | None = None,
        dropout: float = 0.1,
        attention_window: int | None = None,
        attention_class: type | str = MultiHeadAttention,
        feed_forward_class: type | str = FeedForward,
        residual_class: type | str = Residual,
        **kwargs: Any,
    ) -> None:
        check_head_sizes(num_heads, d_k, d_v)
        check_positive(d_ff=d_ff)
        check_dropout(dropout)
        if attention_window is not None:
            check_positive(attention_window=attention_window)
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_heads = num_heads
        self.d_ff = d_ff
        self.d_k = d_k
        self.d_v = d_v
        self.dropout = dropout
        self.attention_window = attention_window
        self.attention_class = _layer_class("attention_class", attention_class)
        if self.attention_class is RestrictedSelfAttention:
            raise ValueError(
                "Pass attention_window instead of the class. Received: "
                f"attention_class={attention_class}"
            )
        if self.attention_class.call is not MultiHeadAttention.call:
            raise ValueError(
                "Encoder and decoder layers use `project_memory` and `attend` "
                "of their attention, not only `call`. Override these. "
                f"Received: attention_class={attention_class}"
            )
        restricted = attention_window is not None
        if restricted and self.attention_class is not MultiHeadAttention:
            raise ValueError(
                "attention_window restricts MultiHeadAttention itself, not "
                "what a subclass computes. Leave one of the two out. "
                f"Received: attention_window={attention_window}, "
                f"attention_class={attention_class}"
            )
        self.feed_forward_class = _layer_class(
            "feed_forward_class", feed_forward_class
        )
        self.residual_class = _layer_class("residual_class", residual_class)

    def _attention(
        self, name: str, x_shape: tuple, memory_shape: tuple
    ) -> MultiHeadAttention:
        attention = self.attention_class(
            self.num_heads,
            self.d_k,
            self.d_v,
            dtype=self.dtype_policy,
            name=name,
        )
        attention.build(x_shape, memory_shape)
        return attention

    def _self_attention(
        self, name: str, shape: tuple, causal: bool
    ) -> MultiHeadAttention:
        if self.attention_window is None:
            return self._attention(name, shape, shape)
        attention = RestrictedSelfAttention(
            self.num_heads,
            self.attention_window,
            self.d_k,
            self.d_v,
            causal,
            dtype=self.dtype_policy,
            name=name,
        )
        attention.build(shape, shape)
        return attention

    def _feed_forward(self, name: str, shape: tuple) -> FeedForward:
        network = self.feed_forward_class(
            self.d_ff, dtype=self.dtype_policy, name=name
        )
        network.build(shape)
        return network

    def _residual(self, name: str, shape: tuple) -> Residual:
        residual = self.residual_class(
            self.dropout, dtype=self.dtype_policy, name=name
        )
        residual.build(shape)
        return residual

    def _arguments(self) -> dict[str, Any]:
        return {
            "num_heads": self.num_heads,
            "d_ff": self.d_ff,
            "d_k": self.d_k,
            "d_v": self.d_v,
            "dropout": self.dropout,
            "attention_window": self.attention_window,
            "attention_class": self.attention_class,
            "feed_forward_class": self.feed_forward_class,
            "residual_class": self.residual_class,
        }

    def sublayer_names(self) -> dict[str, str]:
        """Returns the names under which Keras knows the three classes."""
        name_of = keras.saving.get_registered_name
        return {
            "attention_class": name_of(self.attention_class),
            "feed_forward_class": name_of(self.feed_forward_class),
            "residual_class": name_of(self.residual_class),
        }

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            **self._arguments(),
            **self.sublayer_names(),
        }


class Stack(Block):
    """Layers one after the other, all with the same arguments.

    Args:
        num_layers: Number of layers.
        num_heads: Number of attention heads.
        d_ff: Width inside the feed-forward networks.
        d_k: Width of one head's keys. Default: d_model / `num_heads`.
        d_v: Width of one head's values. Default: d_model / `num_heads`.
        dropout: Rate on the output of every sub-layer.
        attention_window: Positions that self-attention is restricted to, as
            in `RestrictedSelfAttention`; by default all.
        **kwargs: The classes that `Block` takes, and arguments of
            `keras.layers.Layer`.
    """

    def __init__(
        self,
        num_layers: int,
        num_heads: int,
        d_ff: int,
        d_k: int | None = None,
        d_v: int | None = None,
        dropout: float = 0.1,
        attention_window: int | None = None,
        **kwargs: Any,
    ) -> None:
        check_positive(num_layers=num_layers)
        super().__init__(
            num_heads, d_ff, d_k, d_v, dropout, attention_window, **kwargs
        )
        self.num_layers = num_layers

    def _build_layers(self, layer_class: type[Block], *shapes: tuple) -> None:
        self.layers = [
            layer_class(
                **self._arguments(), dtype=self.dtype_policy, name=f"layer_{i}"
            )
            for i in range(self.num_layers)
        ]
        for layer in self.layers:
            layer.build(*shapes)
        self.final_norm = None
        if self.residual_class.needs_final_norm:
            self.final_norm = keras.layers.LayerNormalization(
                epsilon=1e-6, dtype=self.dtype_policy, name="final_norm"
            )
            self.final_norm.build(shapes[0])

    def _finish(self, x: Any) -> Any:
        """Returns the output of the stack for that of its last layer."""
        return x if self.final_norm is None else self.final_norm(x)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_layers": self.num_layers}


def _layer_class(argument: str, given: type | str) -> type:
    """Returns the class that was given, or that Keras registered by name."""
    found = given
    if isinstance(given, str):
        found = keras.saving.get_registered_object(given)
    if not (isinstance(found, type) and issubclass(found, keras.layers.Layer)):
        raise ValueError(
            f"{argument} must be a subclass of keras.layers.Layer, or the name "
            "of one that is decorated with "
            "@keras.saving.register_keras_serializable() and has been "
            f"imported. Received: {argument}={given!r}"
        )
    return found
