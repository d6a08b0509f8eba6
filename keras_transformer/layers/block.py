"""The arguments and sub-layers that encoder and decoder layers share.

Every attention, feed-forward network and residual wrapper of an encoder, a
decoder or a whole `Transformer` is made by `Block` from the classes that it
was given.
"""

import inspect
from typing import Any

import keras

from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.base import SameShape, arguments_of, check_sizes
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.residual import Residual
from keras_transformer.layers.restricted_attention import (
    RestrictedSelfAttention,
)
from keras_transformer.support.fields import FRACTION, check_values

_CLASSES = ("attention_class", "feed_forward_class", "residual_class")
# Not passed to sub-layers: a layer of somebody else need not know them.
_DEFAULTS = dict(
    use_bias=False, activation="relu", norm_first=False, epsilon=1e-6
)


class Block(SameShape):
    """Holds the arguments of a layer, and makes its built sub-layers.

    Args:
        num_heads: Number of attention heads.
        d_ff: Width inside the feed-forward networks.
        d_k: Width of a head's queries and keys. Default: d_model / `num_heads`.
        d_v: Width of a head's values. Default: d_model / `num_heads`.
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
        attention_bias: bool = False,
        activation: str = "relu",
        norm_first: bool = False,
        epsilon: float = 1e-6,
        attention_class: type | str = MultiHeadAttention,
        feed_forward_class: type | str = FeedForward,
        residual_class: type | str = Residual,
        **kwargs: Any,
    ) -> None:
        optional = dict(d_k=d_k, d_v=d_v, attention_window=attention_window)
        check_sizes(optional, num_heads=num_heads, d_ff=d_ff)
        check_values(FRACTION, dropout=dropout)
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

    def _build_self_attention(self, shape: tuple, causal: bool) -> None:
        restricted = {}
        if self.attention_window is not None:
            restricted = dict(window=self.attention_window, causal=causal)
        self.self_attention, self.self_attention_norm = self._attention(
            "self_attention", shape, shape, **restricted
        )

    def _attention(
        self, name: str, x_shape: tuple, memory_shape: tuple, **restricted: Any
    ) -> tuple[MultiHeadAttention, Residual]:
        attention = self._built(
            RestrictedSelfAttention if restricted else self.attention_class,
            name,
            (x_shape, memory_shape),
            num_heads=self.num_heads,
            d_k=self.d_k,
            d_v=self.d_v,
            **restricted,
            use_bias=self.attention_bias,
        )
        return attention, self._residual(f"{name}_norm", x_shape)

    def _build_feed_forward(self, shape: tuple) -> None:
        self.feed_forward = self._built(
            self.feed_forward_class,
            "feed_forward",
            (shape,),
            d_ff=self.d_ff,
            activation=self.activation,
        )
        self.feed_forward_norm = self._residual("feed_forward_norm", shape)

    def _residual(self, name: str, shape: tuple) -> Residual:
        return self._built(
            self.residual_class,
            name,
            (shape,),
            dropout=self.dropout,
            norm_first=self.norm_first,
            epsilon=self.epsilon,
        )

    def _built(
        self, layer_class: type, name: str, shapes: tuple, **arguments: Any
    ) -> Any:
        given = dict(x for x in arguments.items() if x not in _DEFAULTS.items())
        layer = layer_class(**given, dtype=self.dtype_policy, name=name)
        layer.build(*shapes)
        return layer

    def _attend(
        self,
        name: str,
        x: Any,
        memory: Any,
        masks: tuple[Any, Any],
        training: bool | None,
        scores: list | None,
    ) -> Any:
        """Applies an attention in its `Residual`.

        Without a memory it is self-attention. Its scores are appended to
        `scores`, if there is such a list.
        """
        attention = getattr(self, name)

        def attend(x: Any) -> Any:
            inputs = (x, x if memory is None else memory, *masks)
            if scores is None:
                return attention.call(*inputs)
            output, found = attention.call_with_scores(*inputs)
            scores.append(found)
            return output

        residual = getattr(self, f"{name}_norm")
        return residual(x, sublayer=attend, training=training)

    def call_with_scores(self, *inputs: Any, **masks: Any) -> tuple:
        """Computes what `call` does, and returns the attention scores too.

        Arguments are those of `call`, but Keras does not fill in `x_mask` and
        `memory_mask`.

        Returns:
            The output `[B, T, d_model]`; the scores of self-attention
            `[B, H, T, T]`; and in a decoder those of cross-attention
            `[B, H, T, S]`. B = batch, H = heads, T = length of `x`, S =
            length of `memory`. Scores are in float32.
        """
        scores: list = []
        return self.call(*inputs, **masks, scores=scores), *scores

    def sublayer_names(self) -> dict[str, str]:
        """Returns the names under which Keras knows the three classes."""
        return {
            name: keras.saving.get_registered_name(getattr(self, name))
            for name in _CLASSES
        }

    def get_config(self) -> dict[str, Any]:
        names = self.sublayer_names()
        return {**super().get_config(), **arguments_of(self, Block), **names}


class Stack(Block):
    """Layers one after the other, all with the same arguments."""

    def __init__(
        self,
        num_layers: int,
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
        check_sizes(num_layers=num_layers)
        super().__init__(
            num_heads,
            d_ff,
            d_k,
            d_v,
            dropout,
            attention_window,
            attention_bias,
            activation,
            norm_first,
            epsilon,
            attention_class,
            feed_forward_class,
            residual_class,
            **kwargs,
        )
        self.num_layers = num_layers

    def _build_layers(self, layer_class: type[Block], *shapes: tuple) -> None:
        self.layers = [
            self._built(
                layer_class, f"layer_{i}", shapes, **arguments_of(self, Block)
            )
            for i in range(self.num_layers)
        ]
        self.final_norm = None
        if self.layers[0].feed_forward_norm.needs_final_norm:
            self.final_norm = keras.layers.LayerNormalization(
                epsilon=self.epsilon, dtype=self.dtype_policy, name="final_norm"
            )
            self.final_norm.build(shapes[0])

    def call_with_scores(self, x: Any, *inputs: Any, **masks: Any) -> tuple:
        """As in a layer of the stack, but the scores are lists.

        They have one entry per layer.
        """
        scores = []
        for layer in self.layers:
            x, *found = layer.call_with_scores(x, *inputs, **masks)
            scores.append(found)
        return self._normalize(x), *map(list, zip(*scores, strict=True))

    def _normalize(self, x: Any) -> Any:
        return x if self.final_norm is None else self.final_norm(x)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_layers": self.num_layers}


def document_arguments(cls: type) -> type:
    """Writes the arguments of `Block` into a docstring, for `{arguments}`."""
    if cls.__doc__:  # not with python -OO
        _, _, arguments = inspect.getdoc(Block).partition("Args:\n    ")
        documentation = inspect.cleandoc(cls.__doc__)
        cls.__doc__ = documentation.replace("{arguments}", arguments)
    return cls


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
