"""The arguments and sub-layers that encoder and decoder layers share.

Every attention, feed-forward network and residual wrapper of an encoder, a
decoder or a whole `Transformer` is made by `Block` from the classes that it
was given.
"""

import inspect
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

_SIZES = (
    *("num_heads", "d_ff", "d_k", "d_v", "dropout", "attention_window"),
    *("attention_bias", "activation", "norm_first", "epsilon"),
)
_CLASSES = ("attention_class", "feed_forward_class", "residual_class")
_ARGUMENTS = """\
num_heads: Number of attention heads.
    d_ff: Width inside the feed-forward networks.
    d_k: Width of one head's queries and keys. Default: d_model / `num_heads`.
    d_v: Width of one head's values. Default: d_model / `num_heads`.
    dropout: Rate on the output of every sub-layer.
    attention_window: Positions that self-attention is restricted to, as in
        `RestrictedSelfAttention`: in an encoder those centred on each
        position, in a decoder the last ones, its own included, for which no
        causal mask is needed. By default all.
    attention_bias: Whether the projections of attention have biases.
    activation: Activation of the feed-forward networks.
    norm_first: Whether sub-layers normalize their input, as in `Residual`.
    epsilon: What layer normalization adds to the variance.
    attention_class: `MultiHeadAttention` or a subclass, which overrides
        `attend` or `project_memory`.
    feed_forward_class: `FeedForward` or a layer with its arguments.
    residual_class: `Residual` or a subclass. Each of the three may also be
        the name under which Keras registered the class.
    **kwargs: Arguments of `keras.layers.Layer`."""


def document_arguments(cls: type) -> type:
    """Writes the arguments of `Block` into a docstring, for `{arguments}`."""
    cls.__doc__ = inspect.cleandoc(cls.__doc__).replace(
        "{arguments}", _ARGUMENTS
    )
    return cls


class Block(keras.layers.Layer):
    """Holds the arguments of a layer, and makes its built sub-layers."""

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
        self.attention_bias = attention_bias
        self.activation = activation
        self.norm_first = norm_first
        self.epsilon = epsilon
        classes = (attention_class, feed_forward_class, residual_class)
        for name, given in zip(_CLASSES, classes, strict=True):
            setattr(self, name, _layer_class(name, given))
        self._check_attention()

    def _check_attention(self) -> None:
        given = f"attention_class={self.attention_class}"
        if self.attention_class is RestrictedSelfAttention:
            raise ValueError(
                f"Pass attention_window instead of the class. Received: {given}"
            )
        if self.attention_class.call is not MultiHeadAttention.call:
            raise ValueError(
                "Encoder and decoder layers use `project_memory` and `attend` "
                "of their attention, not only `call`. Override these. "
                f"Received: {given}"
            )
        restricted = self.attention_window is not None
        if restricted and self.attention_class is not MultiHeadAttention:
            raise ValueError(
                "attention_window restricts MultiHeadAttention itself, not "
                "what a subclass computes. Leave one of the two out. "
                f"Received: attention_window={self.attention_window}, {given}"
            )

    def _attention(
        self, name: str, x_shape: tuple, memory_shape: tuple
    ) -> MultiHeadAttention:
        return self._built(
            self.attention_class(
                self.num_heads,
                self.d_k,
                self.d_v,
                **_unless_default(use_bias=(self.attention_bias, False)),
                **self._common(name),
            ),
            x_shape,
            memory_shape,
        )

    def _build_self_attention(self, shape: tuple, causal: bool) -> None:
        name = "self_attention"
        if self.attention_window is None:
            self.self_attention = self._attention(name, shape, shape)
        else:
            attention = RestrictedSelfAttention(
                self.num_heads,
                self.attention_window,
                self.d_k,
                self.d_v,
                causal,
                self.attention_bias,
                **self._common(name),
            )
            self.self_attention = self._built(attention, shape, shape)
        self.self_attention_norm = self._residual(f"{name}_norm", shape)

    def _build_feed_forward(self, shape: tuple) -> None:
        network = self.feed_forward_class(
            self.d_ff,
            **_unless_default(activation=(self.activation, "relu")),
            **self._common("feed_forward"),
        )
        self.feed_forward = self._built(network, shape)
        self.feed_forward_norm = self._residual("feed_forward_norm", shape)

    def _residual(self, name: str, shape: tuple) -> Residual:
        residual = self.residual_class(
            self.dropout,
            **_unless_default(
                norm_first=(self.norm_first, False),
                epsilon=(self.epsilon, 1e-6),
            ),
            **self._common(name),
        )
        return self._built(residual, shape)

    def _common(self, name: str) -> dict[str, Any]:
        return {"dtype": self.dtype_policy, "name": name}

    @staticmethod
    def _built(layer: Any, *shapes: tuple) -> Any:
        layer.build(*shapes)
        return layer

    @staticmethod
    def _attend(
        attention: MultiHeadAttention,
        x: Any,
        memory: Any,
        masks: tuple[Any, Any],
        scores: list | None,
    ) -> Any:
        """Calls an attention; appends its scores to a list if there is one."""
        if scores is None:
            return attention.call(x, memory, *masks)
        output, found = attention.call_with_scores(x, memory, *masks)
        scores.append(found)
        return output

    def _arguments(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (*_SIZES, *_CLASSES)}

    def sublayer_names(self) -> dict[str, str]:
        """Returns the names under which Keras knows the three classes."""
        return {
            name: keras.saving.get_registered_name(getattr(self, name))
            for name in _CLASSES
        }

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            **self._arguments(),
            **self.sublayer_names(),
        }


class Stack(Block):
    """Layers one after the other, all with the same arguments."""

    def __init__(self, num_layers: int, *args: Any, **kwargs: Any) -> None:
        check_positive(num_layers=num_layers)
        super().__init__(*args, **kwargs)
        self.num_layers = num_layers

    def _build_layers(self, layer_class: type[Block], *shapes: tuple) -> None:
        self.layers = [
            self._built(
                layer_class(**self._arguments(), **self._common(f"layer_{i}")),
                *shapes,
            )
            for i in range(self.num_layers)
        ]
        self.final_norm = None
        if self.layers[0].feed_forward_norm.needs_final_norm:
            self.final_norm = self._built(
                keras.layers.LayerNormalization(
                    epsilon=self.epsilon, **self._common("final_norm")
                ),
                shapes[0],
            )

    def finish(self, x: Any) -> Any:
        """Returns the output of the stack for that of its last layer."""
        return x if self.final_norm is None else self.final_norm(x)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_layers": self.num_layers}


def _unless_default(**values: tuple[Any, Any]) -> dict[str, Any]:
    """Returns arguments that differ from their default values.

    A layer of somebody else need not know the others.
    """
    return {
        name: value
        for name, (value, default) in values.items()
        if value != default
    }


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
