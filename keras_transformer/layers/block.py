"""What the encoder's and the decoder's layers and stacks have in common."""

from typing import Any

import keras

from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.residual import AddNorm


class Block(keras.layers.Layer):
    """Holds the arguments of a layer, and makes its built sub-layers.

    Args:
        num_heads: Number of attention heads.
        d_ff: Width inside the feed-forward network.
        d_k: Width of one head's keys. Default: d_model / `num_heads`.
        d_v: Width of one head's values. Default: d_model / `num_heads`.
        dropout: Rate on the output of every sub-layer.
        **kwargs: Arguments of `keras.layers.Layer`.
    """

    def __init__(
        self,
        num_heads: int,
        d_ff: int,
        d_k: int | None = None,
        d_v: int | None = None,
        dropout: float = 0.1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.d_ff = d_ff
        self.d_k = d_k
        self.d_v = d_v
        self.dropout = dropout

    def _attention(
        self, name: str, x_shape: tuple, memory_shape: tuple
    ) -> MultiHeadAttention:
        attention = MultiHeadAttention(
            self.num_heads,
            self.d_k,
            self.d_v,
            dtype=self.dtype_policy,
            name=name,
        )
        attention.build(x_shape, memory_shape)
        return attention

    def _feed_forward(self, name: str, shape: tuple) -> FeedForward:
        network = FeedForward(self.d_ff, dtype=self.dtype_policy, name=name)
        network.build(shape)
        return network

    def _add_norm(self, name: str, shape: tuple) -> AddNorm:
        norm = AddNorm(self.dropout, dtype=self.dtype_policy, name=name)
        norm.build(shape, shape)
        return norm

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "d_ff": self.d_ff,
            "d_k": self.d_k,
            "d_v": self.d_v,
            "dropout": self.dropout,
        }


class Stack(Block):
    """A number of layers, one after the other, all with the same arguments.

    Args:
        num_layers: Number of layers.
        num_heads: Number of attention heads.
        d_ff: Width inside the feed-forward networks.
        d_k: Width of one head's keys. Default: d_model / `num_heads`.
        d_v: Width of one head's values. Default: d_model / `num_heads`.
        dropout: Rate on the output of every sub-layer.
        **kwargs: Arguments of `keras.layers.Layer`.
    """

    def __init__(
        self,
        num_layers: int,
        num_heads: int,
        d_ff: int,
        d_k: int | None = None,
        d_v: int | None = None,
        dropout: float = 0.1,
        **kwargs: Any,
    ) -> None:
        if num_layers < 1:
            raise ValueError(
                "num_layers must be positive. Received: "
                f"num_layers={num_layers}"
            )
        super().__init__(num_heads, d_ff, d_k, d_v, dropout, **kwargs)
        self.num_layers = num_layers

    def _make_layers(self, layer_class: type[Block], *shapes: tuple) -> list:
        layers = [
            layer_class(
                self.num_heads,
                self.d_ff,
                self.d_k,
                self.d_v,
                self.dropout,
                dtype=self.dtype_policy,
                name=f"layer_{i}",
            )
            for i in range(self.num_layers)
        ]
        for layer in layers:
            layer.build(*shapes)
        return layers

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_layers": self.num_layers}
