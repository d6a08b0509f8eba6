"""The parts of a decoder, prepared to compute one position at a time.

A part is plain if its class is this library's and its dense layers are Keras'
own, without LoRA and quantization: it becomes a few operations on its current
weights. Others are called.

Letters as in `decoding/step.py`.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable
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
        self._feed_forward = _prepare_network(layer.feed_forward, rows, dtype)

    @property
    def is_plain(self) -> bool:
        """Whether its attention is this library's own."""
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

        The caller stores keys and values: `attend_to_self` uses `project` and
        `attend` of `self_attention`.
        """

        def attend_to_memory(x: Any) -> Any:
            attention = self.cross_attention
            query = attention.project_query(x)
            return attention.attend(query, [memory], [memory_mask], index)

        x = self._self_residual(x, attend_to_self)
        if self.cross_attention is not None:
            x = self._cross_residual(x, attend_to_memory)
        return self._residual(x, self._feed_forward)


def _prepare_network(layer: Any, rows: Rows, dtype: str) -> Function:
    """Returns a function of `[N, n]` from a layer of `[B, K, n]`."""
    if type(layer) is not FeedForward:
        return lambda x: rows.flat(layer(rows.unflatten(x)))
    inner = linear.prepare_dense(layer.inner, dtype)
    outer = linear.prepare_dense(layer.outer, dtype)
    return lambda x: outer(inner(x))


@dataclasses.dataclass
class CalledAttention:
    """Calls `project_memory` and `attend` of an attention."""

    layer: MultiHeadAttention
    rows: Rows
    dtype: str
    is_self_attention: bool  # if `project` is used, not `project_query`

    def project_memory(self, memory: Any) -> Pair:
        """Returns keys and values of the memory, `[B, H, S, w]`."""
        states = memory.states
        return self.layer.project_memory(states, positions_of(states))

    def project_query(self, x: Any) -> Any:
        return self.rows.unflatten(x)  # `attend` projects it

    def project(self, x: Any, index: Any) -> list[Any]:
        """Returns the query of `project_query`, and keys and values."""
        query = self.project_query(x)
        positions = ops.full_like(positions_of(query), index)
        return [query, *self.layer.project_memory(query, positions)]

    def attend(
        self, query: Any, blocks: list[Pair], masks: list, index: Any
    ) -> Any:
        """Returns the output `[N, d_model]` of K queries at a position.

        Each block of keys and values has a mask `[B, 1, K, keys]`: boolean,
        True = attend, or float32, added to the scores. None: each hypothesis
        attends to its own key only, `[B, H, K, w]`.
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
    """`MultiHeadAttention` in few operations."""

    def __post_init__(self) -> None:
        layer, dtype = self.layer, self.dtype
        *inputs, output = dense_layers(layer)
        if not self.is_self_attention:
            inputs = inputs[:1]  # `project_memory` projects the others
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
        # Five operations: oneDNN's softmax wakes a thread, which is slower.
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


def prepare_embedding(
    layer: keras.layers.Layer,
    positions: PositionalEncoding,
    max_length: Any,
    rows: Rows,
    dtype: str,
) -> Callable[[Any, Any], Any]:
    """Returns the function from ids and positions to states `[N, d_model]`."""
    vectors = ops.cast(positions.vectors(ops.arange(max_length)), dtype)
    is_plain = type(layer) is TiedEmbedding
    embeddings = backend.tensor(layer.embeddings.value) if is_plain else None

    def embed(ids: Any, index: Any) -> Any:  # [B, K], and a scalar or [N]
        if is_plain:
            x = backend.take(embeddings, ops.reshape(ids, (-1,)), axis=0)
            x = ops.cast(x, dtype) * layer.factor
        else:
            x = rows.flat(layer(ids))
        return x + backend.take(vectors, index, axis=0)

    return embed


def prepare_logits(model: Any, rows: Rows) -> Function:
    """Returns the function from states `[N, d_model]` to logits `[N, V]`."""
    projection = model.output_projection()
    if projection is None:
        return lambda x: rows.flat(model.logits(rows.unflatten(x)))
    matrix, bias = projection
    dtype = model.compute_dtype
    matrix = linear.in_dtype(backend.tensor(matrix.value), dtype)
    # The product with a transposed matrix is faster in bfloat16 only; in
    # float32 without oneDNN it is twenty times slower.
    if dtype == "bfloat16":
        return Linear(matrix, bias, dtype, is_transposed=True)
    return Linear(ops.transpose(matrix), bias, dtype)


def _prepare_residual(layer: Any, rows: Rows) -> Callable[[Any, Function], Any]:
    """Returns a function of `[N, d_model]` and of a function of it."""
    if type(layer) is Residual:
        norm = prepare_normalization(layer.norm)
        if layer.norm_first:
            return lambda x, sublayer: x + sublayer(norm(x))
        return lambda x, sublayer: norm(x + sublayer(x))

    def call(x: Any, sublayer: Function) -> Any:
        def called_sublayer(x: Any) -> Any:
            return rows.unflatten(sublayer(rows.flat(x)))

        return rows.flat(layer(rows.unflatten(x), sublayer=called_sublayer))

    return call


def prepare_normalization(layer: keras.layers.Layer) -> Function:
    """Returns a function with float32 weights, or a layer that is not plain."""
    if type(layer) is not keras.layers.LayerNormalization:
        return layer
    gamma, beta = (
        ops.cast(x.value, "float32") for x in (layer.gamma, layer.beta)
    )

    def normalize(x: Any) -> Any:
        values = ops.cast(x, "float32")
        mean, variance = ops.moments(values, [-1], keepdims=True)
        factor = ops.rsqrt(variance + layer.epsilon) * gamma
        return ops.cast(values * factor + (beta - mean * factor), x.dtype)

    return normalize
