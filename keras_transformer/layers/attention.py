"""Scaled dot-product attention and multi-head attention (section 3.2).

Letters: B = batch, T = query length, S = key length, H = heads.
Left out on purpose: dropout on the attention scores, which the paper does not
have.
"""

from typing import Any

import keras
from keras import ops

from keras_transformer.layers.common import SameShape, arguments_of, check_sizes
from keras_transformer.masks import combine_masks
from keras_transformer.quantized import policy_of

MASKED = -1e9  # exp() of it is exactly 0 in float32


def attention_scores(query: Any, key: Any, mask: Any = None) -> Any:
    """Returns softmax(Q K^T / sqrt(d_k)) in float32 (equation 1).

    Args:
        query: `[B, H, T, d_k]`.
        key: `[B, H, S, d_k]`.
        mask: Boolean, broadcastable to `[B, H, T, S]`; True = attend.

    Returns:
        `[B, H, T, S]` float32; each row sums to 1, or to 0 if all its keys
        are masked.
    """
    return masked_softmax(_scaled_products(query, key), mask)


def _scaled_products(query: Any, key: Any) -> Any:
    """Returns Q K^T / sqrt(d_k), `[B, H, T, S]`, in float32."""
    d_k = query.shape[-1]
    scores = ops.matmul(query, ops.swapaxes(key, -1, -2))
    # The scale comes after the product: TensorFlow's graph optimizer
    # miscompiles (c * Q) K^T + b inside a while loop on CPU.
    return ops.cast(scores, "float32") * d_k**-0.5


def masked_softmax(scores: Any, mask: Any = None) -> Any:
    """Returns the softmax of scores `[B, H, T, S]` over the unmasked keys."""
    if mask is None:
        return _softmax(scores)
    # Selected, not added: on CPU TensorFlow fuses a product and the addition
    # of a mask into one kernel that is twenty times slower than both.
    scores = _softmax(ops.where(mask, scores, MASKED))
    any_key = ops.any(mask, axis=-1, keepdims=True)
    return scores * ops.cast(any_key, "float32")


def scaled_dot_product_attention(
    query: Any, key: Any, value: Any, mask: Any = None
) -> tuple[Any, Any]:
    """Returns softmax(Q K^T / sqrt(d_k)) V and the softmax (equation 1).

    Args:
        query: As in `attention_scores`.
        key: As in `attention_scores`.
        value: `[B, H, S, d_v]`.
        mask: As in `attention_scores`.

    Returns:
        The output `[B, H, T, d_v]` in the dtype of `value`, and the attention
        scores `[B, H, T, S]` in float32.
    """
    scores = attention_scores(query, key, mask)
    return ops.matmul(ops.cast(scores, value.dtype), value), scores


@keras.saving.register_keras_serializable(package="keras_transformer")
class MultiHeadAttention(SameShape):
    """Attention of several heads side by side (section 3.2.2).

    Queries, keys and values are projected; each head attends; the heads'
    outputs are concatenated and projected to the width of the queries.

    The mask that Keras attached to `memory` is combined with
    `attention_mask`; the mask of `query` is passed on with the output.

    The kernels of the first three projections are initialized like the
    columns of one Glorot-uniform matrix `[d_model, 3 d_model]`, that is with
    half the variance of three separate matrices: in one comparison, attention
    was learned in fewer steps (docs/paper.md).

    Args:
        num_heads: Number of heads, h.
        d_k: Width of one head's queries and keys. Default: width of the
            query / `num_heads`.
        d_v: Width of one head's values. Default: width of the query /
            `num_heads`.
        use_bias: Whether the projections have biases, unlike the paper's.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        query: `[B, T, d_model]`.
        memory: Positions to attend to, `[B, S, d_memory]`; `query` itself for
            self-attention.
        attention_mask: Boolean `[T, S]` or `[B, T, S]`, where B and T may be
            1; True = attend. A query whose keys are all masked gives 0.
        memory_mask: Boolean `[B, S]`, True where `memory` may be attended to.
            Default: the mask that Keras attached to `memory`, if any.
        return_attention_scores: Whether the scores are returned too.

    Returns:
        `[B, T, d_model]`; and the scores `[B, H, T, S]`, in float32.

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
        use_bias: bool = False,
        **kwargs: Any,
    ) -> None:
        check_sizes(num_heads=num_heads, d_k=d_k, d_v=d_v)
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.d_k = d_k
        self.d_v = d_v
        self.use_bias = use_bias

    def build(self, query_shape: tuple, memory_shape: tuple) -> None:
        d_model = query_shape[-1]
        if d_model % self.num_heads and None in (self.d_k, self.d_v):
            raise ValueError(
                "The width of the query must be divisible by num_heads unless "
                "d_k and d_v are given. Received: "
                f"{d_model} with {self.num_heads} heads"
            )
        d_memory = memory_shape[-1]
        keys = d_model if self.d_k is None else self.num_heads * self.d_k
        values = d_model if self.d_v is None else self.num_heads * self.d_v
        make = self._projection
        self.query_projection = make("query", keys, d_model, 0.5)
        self.key_projection = make("key", keys, d_memory, 0.5)
        self.value_projection = make("value", values, d_memory, 0.5)
        self.output_projection = make("output", d_model, values, 1.0)

    def _projection(
        self, name: str, width: int, input_width: int, scale: float
    ) -> keras.layers.Dense:
        dense = keras.layers.Dense(
            width,
            use_bias=self.use_bias,
            # Glorot's, times `scale`.
            kernel_initializer=keras.initializers.VarianceScaling(
                scale, mode="fan_avg", distribution="uniform"
            ),
            dtype=policy_of(self, f"/{name}"),
            name=name,
        )
        dense.build((None, None, input_width))
        return dense

    def call(
        self,
        query: Any,
        memory: Any,
        attention_mask: Any = None,
        memory_mask: Any = None,
        return_attention_scores: bool = False,
    ) -> Any:
        positions = (positions_of(query), positions_of(memory))
        key, value = self.project_memory(memory, positions[1])
        output, scores = self.attend(
            query, key, value, attention_mask, memory_mask, positions
        )
        return (output, scores) if return_attention_scores else output

    def project_memory(
        self, memory: Any, positions: Any = None
    ) -> tuple[Any, Any]:
        """Returns keys and values: all that attention needs of the memory.

        Args:
            memory: `[B, S, d_memory]`.
            positions: The positions of its vectors in the sequence, int32
                `[S]`, for subclasses. Layers and searches always pass it.

        Returns:
            Keys `[B, H, S, d_k]` and values `[B, H, S, d_v]`.
        """
        key = self._heads(self.key_projection, memory)
        return key, self._heads(self.value_projection, memory)

    def project_query(self, query: Any, positions: Any = None) -> Any:
        """Returns the queries of the heads, `[B, H, T, d_k]`.

        Args:
            query: `[B, T, d_model]`.
            positions: As in `project_memory`, int32 `[T]`.
        """
        return self._heads(self.query_projection, query)

    def unnormalized_scores(self, query: Any, key: Any, positions: Any) -> Any:
        """Returns Q K^T / sqrt(d_k), `[B, H, T, S]` in float32.

        The masks and softmax follow. A subclass may add to them.

        Args:
            query: From `project_query`.
            key: From `project_memory`.
            positions: As in `attend`.
        """
        return _scaled_products(query, key)

    def attend(
        self,
        query: Any,
        key: Any,
        value: Any,
        attention_mask: Any = None,
        memory_mask: Any = None,
        positions: tuple[Any, Any] | None = None,
    ) -> tuple[Any, Any]:
        """Attends to keys and values from `project_memory`.

        Args:
            query: `[B, T, d_model]`.
            key: `[B, H, S, d_k]`.
            value: `[B, H, S, d_v]`.
            attention_mask: As in `call`.
            memory_mask: As in `call`, but Keras does not fill it in.
            positions: The positions of the queries, int32 `[T]`, and of the
                keys, `[S]`. Default: 0 to T-1 and 0 to S-1.

        Returns:
            Output and scores, as `call` with `return_attention_scores` does.

        Raises:
            ValueError: If a mask is not boolean or its shape is wrong.
        """
        sizes = (*query.shape[:2], key.shape[2])
        check_masks(sizes, attention_mask, memory_mask)
        if positions is None:
            positions = (positions_of(query), positions_of(key, axis=2))
        query = self.project_query(query, positions[0])
        scores = self.unnormalized_scores(query, key, positions)
        mask = broadcast_masks(attention_mask, memory_mask)
        scores = masked_softmax(scores, mask)
        heads = ops.matmul(ops.cast(scores, value.dtype), value)
        return self._project_output(heads), scores

    def _heads(self, projection: keras.layers.Layer, x: Any) -> Any:
        """Projects `[B, T, d]` to `[B, H, T, width of a head]`."""
        x = projection(x)
        batch, length, width = ops.shape(x)
        width //= self.num_heads
        x = ops.reshape(x, (batch, length, self.num_heads, width))
        return ops.transpose(x, (0, 2, 1, 3))

    def _project_output(self, heads: Any) -> Any:
        """`[B, H, T, d_v]` -> `[B, T, d_model]`."""
        heads = ops.transpose(heads, (0, 2, 1, 3))
        batch, length, _, width = ops.shape(heads)  # [B, T, H, d_v]
        joined = ops.reshape(heads, (batch, length, self.num_heads * width))
        return self.output_projection(joined)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | arguments_of(self, MultiHeadAttention)


def _softmax(scores: Any) -> Any:
    if scores.shape[-1] == 1:
        # 1, with a gradient of 0. keras.ops.softmax warns about this length.
        return ops.exp(scores - scores)
    return ops.softmax(scores, axis=-1)


def positions_of(x: Any, axis: int = 1) -> Any:
    """Returns 0, 1, ... for the length of `x` on an axis, int32."""
    return ops.arange(ops.shape(x)[axis], dtype="int32")


def broadcast_masks(attention_mask: Any, memory_mask: Any) -> Any:
    """Returns both masks as one that broadcasts to `[B, H, T, S]`, or None."""
    if attention_mask is not None:
        # [B, T, S] -> [B, 1, T, S] or [T, S] -> [1, T, S]
        attention_mask = ops.expand_dims(attention_mask, axis=-3)
    if memory_mask is not None:
        # Not by an index: LiteRT cannot add axes to booleans.
        memory_mask = ops.expand_dims(memory_mask, (1, 2))  # [B, 1, 1, S]
    return combine_masks(attention_mask, memory_mask)


def check_masks(sizes: tuple, attention_mask: Any, memory_mask: Any) -> None:
    """Raises a ValueError unless the masks are boolean and fit B, T and S."""
    for name, mask, ranks, shape in (
        ("attention_mask", attention_mask, (2, 3), sizes),
        ("memory_mask", memory_mask, (2,), (sizes[0], sizes[2])),
    ):
        if mask is None:
            continue
        dtype = keras.backend.standardize_dtype(mask.dtype)
        # The last dimensions are compared, as in broadcasting.
        pairs = zip(tuple(mask.shape)[::-1], shape[::-1], strict=False)
        fits = all(x in (1, None, y) or y is None for x, y in pairs)
        if dtype != "bool" or len(mask.shape) not in ranks or not fits:
            raise ValueError(
                f"{name} must be boolean (True = attend) and fit {list(shape)}."
                f" Received: shape {list(mask.shape)}, dtype {dtype}. For ids "
                "[B, S], kt.masks.padding_mask makes a mask [B, 1, S]."
            )
