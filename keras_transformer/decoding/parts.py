"""The parts of a decoder, prepared to compute one position at a time.

A part is plain if its class is this library's and its dense layers are Keras'
own, without LoRA and quantization. A plain part is prepared: a few operations
on its current weights. Others are called, with the inputs of their layers.

Letters as in `decoding/step.py`.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_transformer.decoding import operations
from keras_transformer.decoding.operations import Function, HeadLayout
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

KeysAndValues = tuple[Any, Any]


@dataclasses.dataclass(frozen=True)
class CalledAttention:
    """Calls the methods of an attention."""

    layer: MultiHeadAttention
    beam_size: Any
    is_cross: bool

    def project_memory(self, memory: Any) -> KeysAndValues:
        """Returns keys and values of the memory, `[B, H, S, w]`."""
        states = memory.states
        return self.layer.project_memory(states, positions_of(states))

    def project_query(self, x: Any) -> Any:
        """Returns the query that `attend` takes, which also projects it."""
        return operations.to_hypotheses(x, self.beam_size)

    def project(self, x: Any, index: Any) -> tuple[Any, Any, Any]:
        """Returns query, keys and values `[B, H, K, w]` at a position."""
        query = self.project_query(x)
        positions = ops.full_like(positions_of(query), index)
        key, value = self.layer.project_memory(query, positions)
        return query, key, value

    def attend(
        self, query: Any, keys_and_values: KeysAndValues, mask: Any, index: Any
    ) -> Any:
        """Returns the output `[N, d_model]` of K queries at a position.

        The hypotheses share the keys and values, `[B, H, n, w]`. The mask is
        boolean, `[B, 1, K, n]`; True = attend.
        """
        key, value = keys_and_values
        keys = positions_of(key, axis=2)
        if not self.is_cross:
            # K hypotheses side by side; the last position is the query's.
            keys = keys // self.beam_size
            keys = ops.maximum(keys - keys[-1] + index, 0)
        positions = (ops.full_like(positions_of(query), index), keys)
        # By position: the overridden methods may name arguments differently.
        output, _ = self.layer.attend(
            query, key, value, mask[:, 0], None, positions
        )
        return operations.to_rows(output)


class PreparedAttention:
    """`MultiHeadAttention` in few operations. See `CalledAttention`."""

    def __init__(
        self,
        layer: MultiHeadAttention,
        heads: HeadLayout,
        dtype: str,
        is_cross: bool,
    ) -> None:
        self._layer = layer
        self._heads = heads
        self._dtype = dtype
        inputs = [layer.query_projection]
        if not is_cross:  # else `project_memory` projects keys and values
            inputs += [layer.key_projection, layer.value_projection]
        self._sizes = [dense.units for dense in inputs]
        scale = (self._sizes[0] // layer.num_heads) ** -0.5
        kernel = _joined([dense.kernel for dense in inputs], scale, dtype)
        bias = None
        if layer.use_bias:
            bias = _joined([dense.bias for dense in inputs], scale, dtype)
        self._project = operations.Linear(kernel, bias, dtype)
        self._output = operations.prepare_dense(layer.output_projection, dtype)

    def project_memory(self, memory: Any) -> KeysAndValues:
        states = memory.states
        key, value = self._layer.project_memory(states, positions_of(states))
        # A source that is masked completely gives 0.
        return key, ops.where(ops.expand_dims(memory.mask, -1), value, 0)

    def project_query(self, x: Any) -> Any:
        return self._heads.split(self._project(x))

    def project(self, x: Any, index: Any = None) -> tuple[Any, Any, Any]:
        query, key, value = operations.split(self._project(x), self._sizes)
        split = self._heads.split
        return split(query), split(key), split(value)

    def attend(
        self,
        query: Any,
        keys_and_values: KeysAndValues,
        mask: Any,
        index: Any = None,
        own: KeysAndValues | None = None,
    ) -> Any:
        """As in `CalledAttention`. The mask may also be float32: it is added.

        With `own`, `[B, H, K, w]`, each hypothesis attends to its own key, too.
        """
        key, value = keys_and_values
        products = operations.matmul_transposed(query, key)
        products = ops.cast(products, "float32")
        if keras.backend.standardize_dtype(mask.dtype) == "bool":
            scores = [ops.where(mask, products, MASKED)]
        else:
            scores = [products + mask]
        if own is not None:
            products = ops.sum(query * own[0], axis=-1, keepdims=True)
            scores.append(ops.cast(products, "float32"))
        # Five operations: oneDNN's softmax wakes a thread, which is slower.
        highest = [ops.max(x, axis=-1, keepdims=True) for x in scores]
        highest = functools.reduce(ops.maximum, highest)
        scores = [ops.exp(x - highest) for x in scores]
        sums = [ops.sum(x, axis=-1, keepdims=True) for x in scores]
        total = functools.reduce(ops.add, sums)
        heads = ops.matmul(ops.cast(scores[0] / total, self._dtype), value)
        if own is not None:
            weights = ops.cast(scores[1] / total, self._dtype)
            heads = ops.add(heads, ops.multiply(weights, own[1]))
        return self._output(self._heads.join(heads))


def _joined(variables: list[Any], scale: float, dtype: str) -> Any:
    """Joins the columns of weights. The first, of queries, are scaled."""
    values = [operations.in_dtype(x, dtype) for x in variables]
    values[0] = values[0] * scale
    return ops.concatenate(values, axis=-1)


def _prepare_attention(
    layer: MultiHeadAttention, heads: HeadLayout, dtype: str, is_cross: bool
) -> CalledAttention | PreparedAttention:
    is_plain = (
        type(layer) in (MultiHeadAttention, RestrictedSelfAttention)
        and operations.is_plain_dense(layer.query_projection)
        and operations.is_plain_dense(layer.key_projection)
        and operations.is_plain_dense(layer.value_projection)
        and operations.is_plain_dense(layer.output_projection)
    )
    if is_plain:
        return PreparedAttention(layer, heads, dtype, is_cross)
    return CalledAttention(layer, heads.beam_size, is_cross)


def _called(layer: Function, beam_size: Any) -> Function:
    """Returns a function of rows, which calls a layer of `[B, K, n]`."""

    def called(x: Any) -> Any:
        x = operations.to_hypotheses(x, beam_size)
        return operations.to_rows(layer(x))

    return called


def _prepare_residual(residual: Residual, beam_size: Any) -> Callable:
    """Returns a residual connection of rows around a function of rows."""
    if type(residual) is Residual:
        norm = prepare_normalization(residual.norm)
        if residual.norm_first:
            return lambda x, sublayer: x + sublayer(norm(x))
        return lambda x, sublayer: norm(x + sublayer(x))

    def called(x: Any, sublayer: Function) -> Any:
        def called_sublayer(x: Any) -> Any:
            output = sublayer(operations.to_rows(x))
            return operations.to_hypotheses(output, beam_size)

        x = operations.to_hypotheses(x, beam_size)
        return operations.to_rows(residual(x, sublayer=called_sublayer))

    return called


def prepare_normalization(layer: keras.layers.Layer | None) -> Function:
    """Returns a function of rows, which are not changed without a layer."""
    if layer is None:
        return keras.activations.linear
    if type(layer) is not keras.layers.LayerNormalization:
        return layer
    gamma = ops.cast(layer.gamma.value, "float32")
    beta = ops.cast(layer.beta.value, "float32")

    def normalize(x: Any) -> Any:
        values = ops.cast(x, "float32")
        mean, variance = ops.moments(values, [-1], keepdims=True)
        factor = ops.rsqrt(variance + layer.epsilon) * gamma
        normal = values * factor + (beta - mean * factor)
        return ops.cast(normal, x.dtype)

    return normalize


class PreparedLayer:
    """A layer of a stack: its sub-layers in their residual connections."""

    def __init__(
        self, layer: EncoderLayer | DecoderLayer, heads: HeadLayout, dtype: str
    ) -> None:
        prepared = functools.partial(
            _prepare_residual, beam_size=heads.beam_size
        )
        self.self_attention = _prepare_attention(
            layer.self_attention, heads, dtype, is_cross=False
        )
        self._self_residual = prepared(layer.self_attention_norm)
        self.cross_attention = None
        if isinstance(layer, DecoderLayer):
            self.cross_attention = _prepare_attention(
                layer.cross_attention, heads, dtype, is_cross=True
            )
            self._cross_residual = prepared(layer.cross_attention_norm)
        self._residual = prepared(layer.feed_forward_norm)
        network = layer.feed_forward
        self._feed_forward = _called(network, heads.beam_size)
        if type(network) is FeedForward:
            inner = operations.prepare_dense(network.inner, dtype)
            outer = operations.prepare_dense(network.outer, dtype)
            self._feed_forward = lambda x: outer(inner(x))

    @property
    def has_plain_attention(self) -> bool:
        """Whether its attention is this library's own."""
        attentions = (self.self_attention, self.cross_attention)
        return not any(isinstance(x, CalledAttention) for x in attentions)

    def __call__(
        self,
        x: Any,
        attend_to_self: Function,
        memory: KeysAndValues | None = None,
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
            return attention.attend(query, memory, memory_mask, index)

        x = self._self_residual(x, attend_to_self)
        if self.cross_attention is not None:
            x = self._cross_residual(x, attend_to_memory)
        return self._residual(x, self._feed_forward)


class PreparedEmbedding:
    """Embeds ids and adds their positions."""

    def __init__(
        self,
        layer: keras.layers.Layer,
        positions: PositionalEncoding,
        max_length: Any,
        dtype: str,
    ) -> None:
        vectors = positions.vectors(ops.arange(max_length))
        self._vectors = ops.cast(vectors, dtype)
        self._layer = layer
        self._dtype = dtype
        self._embeddings = None
        if type(layer) is TiedEmbedding:
            self._embeddings = operations.tensor(layer.embeddings.value)

    def __call__(self, ids: Any, index: Any) -> Any:
        """Returns `[N, d_model]` for ids `[B, K]`.

        Args:
            ids: The ids.
            index: Their position: a scalar, or `[N]`.
        """
        if self._embeddings is None:
            x = operations.to_rows(self._layer(ids))
        else:
            x = operations.take(
                self._embeddings, ops.reshape(ids, (-1,)), axis=0
            )
            x = ops.cast(x, self._dtype) * self._layer.factor
        return x + operations.take(self._vectors, index, axis=0)


def prepare_logits(model: Any, beam_size: Any) -> Function:
    """Returns the function from states `[N, d_model]` to logits `[N, V]`."""
    projection = model.output_projection()
    if projection is None:
        return _called(model.logits, beam_size)
    matrix, bias = projection
    dtype = model.compute_dtype
    matrix = operations.in_dtype(operations.tensor(matrix.value), dtype)
    # The product with a transposed matrix is faster in bfloat16 only; in
    # float32 without oneDNN it is twenty times slower.
    if dtype == "bfloat16":
        return operations.Linear(matrix, bias, dtype, is_transposed=True)
    return operations.Linear(ops.transpose(matrix), bias, dtype)
