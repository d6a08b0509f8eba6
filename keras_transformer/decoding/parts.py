"""The parts of a decoder, prepared to compute one position at a time.

Plain parts become a few operations on their weights, which are read when a part
is made. A part is plain if its class is this library's and its dense layers are
Keras' own, without LoRA and quantization. Others are called.

Letters are those of `decoding/step.py`.
"""

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any

import keras
from keras import ops

from keras_transformer.decoding import backend, linear
from keras_transformer.decoding.linear import Function, Linear
from keras_transformer.decoding.rows import Rows
from keras_transformer.layers import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    Residual,
    RestrictedSelfAttention,
    TiedEmbedding,
)
from keras_transformer.layers.attention import MASKED, positions_of
from keras_transformer.layers.positional_encoding import PositionalEncoding

Pair = tuple[Any, Any]  # keys and values


class LayerStep:
    """A layer of a stack: its sub-layers in their residual connections."""

    def __init__(
        self, layer: EncoderLayer | DecoderLayer, rows: Rows, dtype: str
    ) -> None:
        self.self_attention = _prepare_attention(
            layer.self_attention, rows, dtype, is_self_attention=True
        )
        self._self_residual = _prepare_residual(layer.self_attention_norm, rows)
        self.cross_attention = None
        if isinstance(layer, DecoderLayer):
            self.cross_attention = _prepare_attention(
                layer.cross_attention, rows, dtype, is_self_attention=False
            )
            norm = layer.cross_attention_norm
            self._cross_residual = _prepare_residual(norm, rows)
        self._residual = _prepare_residual(layer.feed_forward_norm, rows)
        network = layer.feed_forward
        self._feed_forward: Function = CalledLayer(network, rows)
        if type(network) is FeedForward:
            self._feed_forward = PlainFeedForward(network, dtype)

    @property
    def is_plain(self) -> bool:
        """Whether its attention is that of this library, and not called."""
        attentions = (self.self_attention, self.cross_attention)
        return all(isinstance(x, PlainAttention | None) for x in attentions)

    def __call__(
        self,
        x: Any,
        attend_to_self: Function,
        memory: Pair | None = None,
        memory_mask: Any = None,
        index: Any = None,
    ) -> Any:
        """Returns the output `[N, d_model]` for `x`, `[N, d_model]`.

        The caller keeps keys and values: the function `attend_to_self` uses
        `project` and `attend` of `self_attention`.
        """

        def attend_to_memory(x: Any) -> Any:
            attention = self.cross_attention
            query = attention.project_query(x)
            return attention.attend(query, [memory], [memory_mask], index)

        x = self._self_residual(x, attend_to_self)
        if self.cross_attention is not None:
            x = self._cross_residual(x, attend_to_memory)
        return self._residual(x, self._feed_forward)


class CalledLayer:
    """A layer or a function of `[B, K, n]`, for `[N, n]`."""

    def __init__(self, layer: Function, rows: Rows) -> None:
        self._layer = layer
        self._rows = rows

    def __call__(self, x: Any) -> Any:
        return self._rows.flat(self._layer(self._rows.of_hypotheses(x)))


class PlainFeedForward:
    """`FeedForward`, whose dense layers may be called."""

    def __init__(self, layer: FeedForward, dtype: str) -> None:
        self._inner = linear.prepare_dense(layer.inner, dtype)
        self._outer = linear.prepare_dense(layer.outer, dtype)

    def __call__(self, x: Any) -> Any:
        return self._outer(self._inner(x))


@dataclasses.dataclass
class CalledAttention:
    """An attention of which `project_memory` and `attend` are called."""

    layer: MultiHeadAttention
    rows: Rows
    dtype: str
    is_self_attention: bool  # if `project` is used, not `project_query`

    def project_memory(self, memory: Any) -> Pair:
        """Returns keys and values of the memory, `[B, H, S, w]`."""
        states = memory.states
        return self.layer.project_memory(states, positions_of(states))

    def project_query(self, x: Any) -> Any:
        return self.rows.of_hypotheses(x)  # `attend` projects it

    def project(self, x: Any, index: Any) -> list[Any]:
        """Returns the query of `project_query`, and keys and values."""
        query = self.project_query(x)
        positions = ops.full_like(positions_of(query), index)
        return [query, *self.layer.project_memory(query, positions)]

    def attend(
        self, query: Any, blocks: list[Pair], masks: list, index: Any
    ) -> Any:
        """Returns the output `[N, d_model]` of K queries at a position.

        There is a mask for each block of keys and values, `[B, 1, K, keys]`:
        boolean, True = attend, or float32, to be added to the scores. None:
        each hypothesis attends to its own key only, `[B, H, K, w]`.
        """
        (pair,), (mask,) = blocks, masks
        keys = positions_of(pair[0], axis=2)
        if self.is_self_attention:
            keys = keys // self.rows.beam_size  # K hypotheses side by side
        positions = (ops.full_like(positions_of(query), index), keys)
        output, _ = self.layer.attend(query, *pair, mask[:, 0], None, positions)
        return self.rows.flat(output)


@dataclasses.dataclass
class PlainAttention(CalledAttention):
    """`MultiHeadAttention` in few operations, with one product to project."""

    def __post_init__(self) -> None:
        layer, dtype = self.layer, self.dtype
        *inputs, output = dense_layers(layer)
        if not self.is_self_attention:
            inputs = inputs[:1]  # keys and values are `project_memory`'s
        self._sizes = [dense.units for dense in inputs]
        scale = (self._sizes[0] // layer.num_heads) ** -0.5

        def joined(variables: Iterable[Any]) -> Any:
            query, *others = (linear.in_dtype(x, dtype) for x in variables)
            return ops.concatenate([query * scale, *others], axis=-1)

        kernel = joined(dense.kernel for dense in inputs)
        bias = joined(x.bias for x in inputs) if layer.use_bias else None
        self._project = Linear(kernel, bias, dtype)
        self._output = Linear(output.kernel, output.bias, dtype)

    def project_memory(self, memory: Any) -> Pair:
        key, value = super().project_memory(memory)
        # A source that is masked completely gives 0.
        return key, ops.where(ops.expand_dims(memory.mask, -1), value, 0)

    def project_query(self, x: Any) -> Any:
        return self.rows.split(self._project(x))

    def project(self, x: Any, index: Any = None) -> list[Any]:
        parts = backend.split(self._project(x), self._sizes)
        return [self.rows.split(part) for part in parts]

    def attend(
        self, query: Any, blocks: list[Pair], masks: list, index: Any = None
    ) -> Any:
        scores = [
            _scores(query, key, mask)
            for (key, _), mask in zip(blocks, masks, strict=True)
        ]
        # Softmax as five operations: oneDNN's one wakes a thread, which takes
        # longer than all of them.
        highest = [ops.max(x, axis=-1, keepdims=True) for x in scores]
        highest = functools.reduce(ops.maximum, highest)
        scores = [ops.exp(x - highest) for x in scores]
        sums = [ops.sum(x, axis=-1, keepdims=True) for x in scores]
        total = functools.reduce(ops.add, sums)
        heads = [
            (ops.multiply if mask is None else ops.matmul)(
                ops.cast(x / total, self.dtype), value
            )
            for x, (_, value), mask in zip(scores, blocks, masks, strict=True)
        ]
        return self._output(self.rows.join(functools.reduce(ops.add, heads)))


def _scores(query: Any, key: Any, mask: Any) -> Any:
    """Returns scores `[B, H, K, keys]`, float32."""
    if mask is None:
        scores = ops.sum(query * key, axis=-1, keepdims=True)
        return ops.cast(scores, "float32")
    scores = ops.cast(backend.matmul_transposed(query, key), "float32")
    if keras.backend.standardize_dtype(mask.dtype) == "bool":
        return ops.where(mask, scores, MASKED)
    return scores + mask


def _prepare_attention(
    layer: MultiHeadAttention, rows: Rows, dtype: str, is_self_attention: bool
) -> CalledAttention:
    is_plain = type(layer) in (MultiHeadAttention, RestrictedSelfAttention)
    if is_plain and all(map(linear.is_plain_dense, dense_layers(layer))):
        return PlainAttention(layer, rows, dtype, is_self_attention)
    return CalledAttention(layer, rows, dtype, is_self_attention)


def dense_layers(attention: MultiHeadAttention) -> list[keras.layers.Dense]:
    """Returns the projections of queries, keys, values and the output."""
    return [
        attention.query_projection,
        attention.key_projection,
        attention.value_projection,
        attention.output_projection,
    ]


class EmbeddingStep:
    """A target's embedding and positions."""

    def __init__(
        self,
        layer: keras.layers.Layer,
        positions: PositionalEncoding,
        max_length: Any,
        rows: Rows,
        dtype: str,
    ) -> None:
        self._layer = layer
        self._rows = rows
        self._dtype = dtype
        vectors = positions.vectors(ops.arange(max_length))
        self._vectors = ops.cast(vectors, dtype)
        self._embeddings = None
        if type(layer) is TiedEmbedding:
            self._embeddings = backend.tensor(layer.embeddings.value)

    def __call__(self, ids: Any, index: Any) -> Any:
        """Returns `[N, d_model]` of ids `[B, K]` and a position, or `[N]`."""
        if self._embeddings is None:
            x = self._rows.flat(self._layer(ids))
        else:
            x = backend.take(self._embeddings, ops.reshape(ids, (-1,)), axis=0)
            x = ops.cast(x, self._dtype) * self._layer.factor
        return x + backend.take(self._vectors, index, axis=0)


class MemoryProjection:
    """Keys and values of encoded sources, as `project_memory` gives them."""

    def __init__(
        self, attention: MultiHeadAttention, rows: Rows, dtype: str
    ) -> None:
        self._rows = rows
        self._key = linear.prepare_dense(attention.key_projection, dtype)
        self._value = linear.prepare_dense(attention.value_projection, dtype)

    def __call__(self, x: Any) -> Pair:
        """`[N, d_model]` -> twice `[B, H, K, w]`."""
        return self._rows.split(self._key(x)), self._rows.split(self._value(x))


def prepare_logits(model: Any, rows: Rows) -> Function:
    """Returns the function from states `[N, d_model]` to logits `[N, V]`."""
    projection = model.output_projection()
    if projection is None:
        return CalledLayer(model.logits, rows)
    matrix, bias = projection
    dtype = model.compute_dtype
    matrix = linear.in_dtype(backend.tensor(matrix.value), dtype)
    # In float32 the product with a transposed matrix is slower, without
    # oneDNN twenty times. In bfloat16 it is faster.
    if dtype == "bfloat16":
        return Linear(matrix, bias, dtype, is_transposed=True)
    return Linear(ops.transpose(matrix), bias, dtype)


class PlainResidual:
    """`Residual`, without dropout."""

    def __init__(self, layer: Residual) -> None:
        self._norm = prepare_normalization(layer.norm)
        self._norm_first = layer.norm_first

    def __call__(self, x: Any, sublayer: Function) -> Any:
        if self._norm_first:
            return x + sublayer(self._norm(x))
        return self._norm(x + sublayer(x))


class CalledResidual:
    """A residual connection of another class, which is called."""

    def __init__(self, layer: keras.layers.Layer, rows: Rows) -> None:
        self._layer = layer
        self._rows = rows

    def __call__(self, x: Any, sublayer: Function) -> Any:
        def called_sublayer(x: Any) -> Any:
            return self._rows.of_hypotheses(sublayer(self._rows.flat(x)))

        x = self._rows.of_hypotheses(x)
        return self._rows.flat(self._layer(x, sublayer=called_sublayer))


def _prepare_residual(
    layer: keras.layers.Layer, rows: Rows
) -> PlainResidual | CalledResidual:
    if type(layer) is Residual:
        return PlainResidual(layer)
    return CalledResidual(layer, rows)


class PlainNormalization:
    """Layer normalization that reads its weights in float32."""

    def __init__(self, layer: keras.layers.LayerNormalization) -> None:
        self._gamma = ops.cast(layer.gamma.value, "float32")
        self._beta = ops.cast(layer.beta.value, "float32")
        self._epsilon = layer.epsilon

    def __call__(self, x: Any) -> Any:
        values = ops.cast(x, "float32")
        mean, variance = ops.moments(values, [-1], keepdims=True)
        factor = ops.rsqrt(variance + self._epsilon) * self._gamma
        return ops.cast(values * factor + (self._beta - mean * factor), x.dtype)


def prepare_normalization(layer: keras.layers.Layer) -> Function:
    """Returns a `PlainNormalization`, or a layer of another class."""
    if type(layer) is keras.layers.LayerNormalization:
        return PlainNormalization(layer)
    return layer
