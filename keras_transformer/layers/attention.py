"""Scaled dot-product attention and multi-head attention (section 3.2).

Letters: B = batch, T = query length, S = key length, H = heads.
Left out on purpose: dropout on the attention weights and biases in the
projections, which the paper does not have.
"""

from typing import Any

import keras
from keras import ops

_MASKED = -1e9  # exp() of it is exactly 0 in float32


def attention_weights(query: Any, key: Any, mask: Any = None) -> Any:
    """Returns softmax(Q K^T / sqrt(d_k)) in float32 (equation 1).

    Args:
        query: `[B, H, T, d_k]`.
        key: `[B, H, S, d_k]`.
        mask: Boolean, broadcastable to `[B, H, T, S]`; True = attend. A row
            without any True gives weights of 0.

    Returns:
        `[B, H, T, S]` float32; each row sums to 1, or to 0 if all masked.
    """
    d_k = query.shape[-1]
    scores = ops.matmul(query, ops.swapaxes(key, -1, -2))
    # The scale comes after the product: TensorFlow's graph optimiser
    # mistranslates (c * Q) K^T + b inside a while loop on CPU.
    scores = ops.cast(scores, "float32") * d_k**-0.5  # [B, H, T, S]
    if mask is None:
        return ops.softmax(scores, axis=-1)
    # Selected, not added: on CPU TensorFlow fuses a product and the addition
    # of a mask into one kernel that is twenty times slower than both.
    weights = ops.softmax(ops.where(mask, scores, _MASKED), axis=-1)
    some = ops.any(mask, axis=-1, keepdims=True)
    return weights * ops.cast(some, "float32")


def scaled_dot_product_attention(
    query: Any, key: Any, value: Any, mask: Any = None
) -> Any:
    """Returns softmax(Q K^T / sqrt(d_k)) V (equation 1).

    Args:
        query: `[B, H, T, d_k]`.
        key: `[B, H, S, d_k]`.
        value: `[B, H, S, d_v]`.
        mask: As in `attention_weights`.

    Returns:
        `[B, H, T, d_v]` in the dtype of `value`.
    """
    weights = attention_weights(query, key, mask)
    return ops.matmul(ops.cast(weights, value.dtype), value)


@keras.saving.register_keras_serializable(package="keras_transformer")
class MultiHeadAttention(keras.layers.Layer):
    """Attention of several heads side by side (section 3.2.2).

    Queries, keys and values are projected without bias, attended to by each
    head, joined and projected to the width of the queries. Masks are explicit
    arguments; nothing relies on Keras' implicit masks.

    The first three projections begin as the columns of one Glorot-uniform
    matrix, `[d_model, 3 d_model]`, would: with half the variance of three
    matrices. Training finds out sooner what to attend to (docs/results.md).

    Args:
        num_heads: Number of heads, h.
        d_k: Width of one head's queries and keys. Default: width of the
            query / `num_heads`.
        d_v: Width of one head's values. Default: likewise.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        query: `[B, T, d_model]`.
        memory: What is attended to, `[B, S, d_memory]`; `query` itself for
            self-attention.
        attention_mask: Boolean, broadcastable to `[B, T, S]`; True = attend.
            A query whose keys are all masked gives 0.

    Returns:
        `[B, T, d_model]`.

    Example:

    >>> import keras, keras_transformer as kt
    >>> attention = kt.layers.MultiHeadAttention(num_heads=8)
    >>> x = keras.random.normal((2, 10, 512))
    >>> tuple(attention(x, x, kt.masks.causal_mask(10)).shape)
    (2, 10, 512)
    """

    def __init__(
        self,
        num_heads: int,
        d_k: int | None = None,
        d_v: int | None = None,
        **kwargs: Any,
    ) -> None:
        if min(num_heads, d_k or 1, d_v or 1) < 1 or 0 in (d_k, d_v):
            raise ValueError(
                "num_heads, d_k and d_v must be positive. Received: "
                f"num_heads={num_heads}, d_k={d_k}, d_v={d_v}"
            )
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.d_k = d_k
        self.d_v = d_v

    def build(self, query_shape: tuple, memory_shape: tuple) -> None:
        """Creates the four projections."""
        d_model = query_shape[-1]
        if d_model % self.num_heads and None in (self.d_k, self.d_v):
            raise ValueError(
                "The width of the query must be divisible by num_heads unless "
                "d_k and d_v are given. Received: "
                f"width={d_model}, num_heads={self.num_heads}"
            )
        self._d_k = self.d_k or d_model // self.num_heads
        self._d_v = self.d_v or d_model // self.num_heads
        keys, values = self.num_heads * self._d_k, self.num_heads * self._d_v
        self.query_projection = self._projection("query", keys, d_model, 0.5)
        self.key_projection = self._projection(
            "key", keys, memory_shape[-1], 0.5
        )
        self.value_projection = self._projection(
            "value", values, memory_shape[-1], 0.5
        )
        self.output_projection = self._projection(
            "output", d_model, values, 1.0
        )

    def _projection(
        self, name: str, width: int, input_width: int, scale: float
    ) -> keras.layers.Dense:
        dense = keras.layers.Dense(
            width,
            use_bias=False,
            # Glorot's, times `scale`.
            kernel_initializer=keras.initializers.VarianceScaling(
                scale, mode="fan_avg", distribution="uniform"
            ),
            dtype=self.dtype_policy,
            name=name,
        )
        dense.build((None, None, input_width))
        return dense

    def call(self, query: Any, memory: Any, attention_mask: Any = None) -> Any:
        key, value = self.project_memory(memory)
        return self.attend(query, key, value, attention_mask)

    def project_memory(self, memory: Any) -> tuple[Any, Any]:
        """Returns keys and values: all that attention needs of the memory.

        Args:
            memory: `[B, S, d_memory]`.

        Returns:
            Keys `[B, H, S, d_k]` and values `[B, H, S, d_v]`.
        """
        key = self._split_heads(self.key_projection(memory), self._d_k)
        value = self._split_heads(self.value_projection(memory), self._d_v)
        return key, value

    def attend(
        self, query: Any, key: Any, value: Any, attention_mask: Any = None
    ) -> Any:
        """Attends with keys and values from `project_memory`.

        Args:
            query: `[B, T, d_model]`.
            key: `[B, H, S, d_k]`.
            value: `[B, H, S, d_v]`.
            attention_mask: Boolean, broadcastable to `[B, T, S]`.

        Returns:
            `[B, T, d_model]`.
        """
        heads = scaled_dot_product_attention(
            self._split_heads(self.query_projection(query), self._d_k),
            key,
            value,
            _over_heads(attention_mask),
        )
        heads = ops.transpose(heads, (0, 2, 1, 3))  # [B, T, H, d_v]
        length = ops.shape(query)[1]
        joined = ops.reshape(heads, (-1, length, self.num_heads * self._d_v))
        return self.output_projection(joined)

    def weights_of(
        self, query: Any, memory: Any, attention_mask: Any = None
    ) -> Any:
        """Returns how much each query attends to each key.

        Args:
            query: `[B, T, d_model]`.
            memory: `[B, S, d_memory]`.
            attention_mask: Boolean, broadcastable to `[B, T, S]`.

        Returns:
            `[B, H, T, S]` float32.
        """
        query = self._split_heads(self.query_projection(query), self._d_k)
        key = self._split_heads(self.key_projection(memory), self._d_k)
        return attention_weights(query, key, _over_heads(attention_mask))

    def _split_heads(self, x: Any, width: int) -> Any:
        """`[B, T, H * width]` -> `[B, H, T, width]`."""
        length = ops.shape(x)[1]
        x = ops.reshape(x, (-1, length, self.num_heads, width))
        return ops.transpose(x, (0, 2, 1, 3))

    def compute_output_shape(
        self, query_shape: tuple, memory_shape: tuple
    ) -> tuple:
        return query_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "d_k": self.d_k,
            "d_v": self.d_v,
        }


def _over_heads(mask: Any) -> Any:
    """`[B, T, S]` or `[T, S]` -> `[B, 1, T, S]` or `[1, T, S]`."""
    return None if mask is None else ops.expand_dims(mask, axis=-3)
