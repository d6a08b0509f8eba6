"""What encoder and decoder layers share: their arguments and sub-layers."""

import functools
from collections.abc import Callable
from typing import Any

import keras

from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.common import SameShape, arguments_of, check_sizes
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.residual import Residual
from keras_transformer.layers.restricted_attention import (
    RestrictedSelfAttention,
)
from keras_transformer.support.errors import InputError


class TransformerLayer(SameShape):
    """Base class of encoder and decoder layers, and of their stacks.

    The classes in its arguments check the other arguments.
    """

    def __init__(
        self,
        num_heads: int,
        d_ff: int,
        d_k: int | None = None,
        d_v: int | None = None,
        dropout: float = 0.1,
        attention_window: int | None = None,
        attention_bias: bool = False,
        activation: str = "relu",
        norm_first: bool = False,
        epsilon: float = 1e-6,
        attention_class: type | str = MultiHeadAttention,
        feed_forward_class: type | str = FeedForward,
        residual_class: type | str = Residual,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.d_ff = d_ff
        self.d_k = d_k
        self.d_v = d_v
        self.dropout = dropout
        self.attention_window = attention_window
        self.attention_bias = attention_bias
        self.activation = activation
        self.norm_first = norm_first
        self.epsilon = epsilon
        self.attention_class = find_class(attention_class, "attention_class")
        self.feed_forward_class = find_class(
            feed_forward_class, "feed_forward_class"
        )
        self.residual_class = find_class(residual_class, "residual_class")
        is_ours = self.attention_class is MultiHeadAttention
        if attention_window is not None and not is_ours:
            raise InputError(
                "needs MultiHeadAttention as attention_class. Received: "
                f"{attention_window} with {self.attention_class}",
                argument="attention_window",
            )

    def _build_self_attention(self, shape: tuple, causal: bool) -> None:
        attention_class = self.attention_class
        if self.attention_window is not None:
            attention_class = functools.partial(
                RestrictedSelfAttention,
                window=self.attention_window,
                causal=causal,
            )
        self.self_attention = self._build_attention(
            "self_attention", attention_class, shape, shape
        )
        self.self_attention_norm = self._build_residual(
            "self_attention_norm", shape
        )

    def _build_feed_forward(self, shape: tuple) -> None:
        self.feed_forward = self.feed_forward_class(
            d_ff=self.d_ff,
            activation=self.activation,
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        self.feed_forward.build(shape)
        self.feed_forward_norm = self._build_residual(
            "feed_forward_norm", shape
        )

    def _build_attention(
        self,
        name: str,
        attention_class: Callable[..., MultiHeadAttention],
        query_shape: tuple,
        memory_shape: tuple,
    ) -> MultiHeadAttention:
        attention = attention_class(
            num_heads=self.num_heads,
            d_k=self.d_k,
            d_v=self.d_v,
            use_bias=self.attention_bias,
            dtype=self.dtype_policy,
            name=name,
        )
        attention.build(query_shape, memory_shape)
        return attention

    def _build_residual(self, name: str, shape: tuple) -> Residual:
        residual = self.residual_class(
            dropout=self.dropout,
            norm_first=self.norm_first,
            epsilon=self.epsilon,
            dtype=self.dtype_policy,
            name=name,
        )
        residual.build(shape)
        return residual

    def _attend(
        self,
        attention: MultiHeadAttention,
        residual: Residual,
        x: Any,
        attention_mask: Any,
        memory_mask: Any,  # of self-attention: the mask of its input
        training: bool | None,
        scores: list | None,
        memory: Any = None,  # of self-attention: its input
    ) -> Any:
        """Calls an attention in its residual. `scores` gets the scores."""
        # Keras fills in masks that are left out, and takes no None by name.
        masks = {} if memory_mask is None else {"memory_mask": memory_mask}

        def attend(x: Any) -> Any:
            keys = x if memory is None else memory
            if scores is None:
                return attention(x, keys, attention_mask, **masks)
            output, new_scores = attention(
                x, keys, attention_mask, return_attention_scores=True, **masks
            )
            scores.append(new_scores)
            return output

        return residual(x, sublayer=attend, training=training)

    def _feed_forward(self, x: Any, training: bool | None) -> Any:
        return self.feed_forward_norm(
            x, sublayer=self.feed_forward, training=training
        )

    def get_config(self) -> dict[str, Any]:
        arguments = arguments_of(self, TransformerLayer)
        for name in ("attention_class", "feed_forward_class", "residual_class"):
            arguments[name] = keras.saving.get_registered_name(arguments[name])
        return super().get_config() | arguments


class Stack(TransformerLayer):
    """Layers one after the other, all with the same arguments."""

    def __init__(
        self, num_layers: int, num_heads: int, d_ff: int, **kwargs: Any
    ) -> None:
        check_sizes(num_layers=num_layers)
        super().__init__(num_heads, d_ff, **kwargs)
        self.num_layers = num_layers

    def _build_layers(
        self, layer_class: type[TransformerLayer], *shapes: tuple
    ) -> None:
        arguments = arguments_of(self, TransformerLayer)
        policy = self.dtype_policy
        self.layers = []
        for i in range(self.num_layers):
            layer = layer_class(**arguments, dtype=policy, name=f"layer_{i}")
            layer.build(*shapes)
            self.layers.append(layer)
        self.final_norm = None
        residual = self.layers[0].feed_forward_norm
        if residual.needs_final_norm:
            self.final_norm = residual.make_norm("final_norm")
            self.final_norm.build(shapes[0])

    def _call_layers(self, x: Any, *inputs: Any, **named: Any) -> Any:
        """Applies the layers, then the final normalization."""
        has_scores = named["return_attention_scores"]
        scores = []
        for layer in self.layers:
            x = layer(x, *inputs, **named)
            if has_scores:
                x, *layer_scores = x
                scores.append(layer_scores)
        if self.final_norm is not None:
            x = self.final_norm(x)
        if has_scores:
            return x, *map(list, zip(*scores, strict=True))
        return x

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_layers": self.num_layers}


def find_class(layer_class: type | str, argument: str) -> type:
    """Returns a class, or the class that Keras registered by a name.

    It raises an InputError, which names the argument, if the class is not a
    layer or its file is not imported.
    """
    cls = layer_class
    if isinstance(layer_class, str):
        cls = keras.saving.get_registered_object(layer_class)
    if not (isinstance(cls, type) and issubclass(cls, keras.Layer)):
        raise InputError(
            "must be a layer that @keras.saving.register_keras_serializable() "
            f"registers. Received: {layer_class!r}. Import the file that "
            "defines it, in commands with --module FILE.py.",
            argument=argument,
        )
    return cls
