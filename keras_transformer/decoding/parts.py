"""The parts of a decoder, prepared to compute one position at a time.

Plain parts become a few operations on their weights. A part is plain if its
class is this library's and its dense layers are Keras' own, without LoRA and
quantization. Others are called.

Letters are those of `decoding/step.py`.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.decoding.rows import Rows, take
from keras_transformer.layers import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    Residual,
    RestrictedSelfAttention,
    TiedEmbedding,
)
from keras_transformer.layers.attention import MASKED
from keras_transformer.layers.positional_encoding import PositionalEncoding

Pair = tuple[Any, Any]  # keys and values
# Past and new ones -> those to attend to, in one or several blocks.
Append = Callable[[Pair, Pair], Sequence[Pair]]

if keras.backend.backend() == "tensorflow":
    # keras.ops would add operations to each of these.
    import tensorflow as tf

    # A lookup in a variable would copy it.
    _tensor = tf.convert_to_tensor
    of_parents = functools.partial(tf.gather, batch_dims=1)
    _products = functools.partial(tf.matmul, transpose_b=True)
    _split = functools.partial(tf.split, axis=1)

else:
    _tensor = ops.convert_to_tensor

    def of_parents(x: Any, parents: Any) -> Any:
        """`[B, K, n]` and `[B, K]` -> `[B, K, n]`."""
        return ops.take_along_axis(x, parents[..., None], axis=1)

    def _products(query: Any, key: Any) -> Any:
        """`[B, H, K, w]` and `[B, H, P, w]` -> `[B, H, K, P]`."""
        return ops.matmul(query, ops.swapaxes(key, -1, -2))

    def _split(x: Any, sizes: list[int]) -> list[Any]:
        return ops.split(x, list(itertools.accumulate(sizes[:-1])), axis=1)


class LayerStep:
    """A layer of a stack: its sub-layers in their residual connections."""

    def __init__(
        self, layer: EncoderLayer | DecoderLayer, rows: Rows, dtype: str
    ) -> None:
        self.self_attention = _attention(
            layer.self_attention, rows, dtype, is_self_attention=True
        )
        self._self_residual = _residual(layer.self_attention_norm, rows)
        self.cross_attention = None
        if isinstance(layer, DecoderLayer):
            self.cross_attention = _attention(
                layer.cross_attention, rows, dtype, is_self_attention=False
            )
            self._cross_residual = _residual(layer.cross_attention_norm, rows)
        self._residual = _residual(layer.feed_forward_norm, rows)
        network = layer.feed_forward
        self._feed_forward = rows.called(network)
        if type(network) is FeedForward:
            inner = _dense(network.inner, dtype)
            outer = _dense(network.outer, dtype)
            self._feed_forward = lambda x: outer(inner(x))

    @property
    def is_plain(self) -> bool:
        """Whether its attention is that of this library, and not called."""
        attentions = (self.self_attention, self.cross_attention)
        return all(isinstance(x, _PlainAttention | None) for x in attentions)

    def __call__(
        self,
        x: Any,
        past: Pair | None,
        masks: Sequence[Any],
        memory: Pair | None,
        memory_mask: Any,
        append: Append,
    ) -> tuple[Any, Sequence[Pair]]:
        """Returns the output `[N, d_model]`, and what `append` returned."""
        blocks: Sequence[Pair] = []

        def attend_to_self(x: Any) -> Any:
            nonlocal blocks
            query, *new = self.self_attention.project(x)
            blocks = append(past, new)
            return self.self_attention.attend(query, blocks, masks)

        def attend_to_memory(x: Any) -> Any:
            query = self.cross_attention.project_query(x)
            return self.cross_attention.attend(query, [memory], [memory_mask])

        x = self._self_residual(x, attend_to_self)
        if self.cross_attention is not None:
            x = self._cross_residual(x, attend_to_memory)
        return self._residual(x, self._feed_forward), blocks


@dataclasses.dataclass
class _CalledAttention:
    """An attention of which `project_memory` and `attend` are called."""

    layer: MultiHeadAttention
    rows: Rows
    dtype: str

    def project_memory(self, memory: Any) -> Pair:
        """Returns keys and values of the memory, `[B, H, S, w]`."""
        return self.layer.project_memory(memory.states)

    def project_query(self, x: Any) -> Any:
        return self.rows.of_hypotheses(x)  # `attend` projects it

    def project(self, x: Any) -> list[Any]:
        """Returns what `project_query` does, and keys and values."""
        query = self.project_query(x)
        return [query, *self.layer.project_memory(query)]

    def attend(
        self, query: Any, blocks: Sequence[Pair], masks: Sequence[Any]
    ) -> Any:
        """Returns the output `[N, d_model]`.

        There is a mask for each block of keys and values, `[B, 1, K, keys]`:
        boolean, True = attend, or float32, to be added to the scores. None:
        each hypothesis attends to its own key only, `[B, H, K, w]`.
        """
        (pair,), (mask,) = blocks, masks
        output, _ = self.layer.attend(query, *pair, mask[:, 0])
        return self.rows.flat(output)


@dataclasses.dataclass
class _PlainAttention(_CalledAttention):
    """`MultiHeadAttention` in few operations.

    Queries are scaled by their projection, which for `project` gives keys and
    values in the same product.
    """

    is_self_attention: bool  # if `project` is used, not `project_query`

    def __post_init__(self) -> None:
        layer, dtype = self.layer, self.dtype
        *inputs, output = _dense_layers(layer)
        if not self.is_self_attention:
            inputs = inputs[:1]  # keys and values are `project_memory`'s
        self._sizes = [dense.units for dense in inputs]
        scale = (self._sizes[0] // layer.num_heads) ** -0.5

        def joined(variables: Iterable[Any]) -> Any:
            query, *others = (_in_dtype(x, dtype) for x in variables)
            return ops.concatenate([query * scale, *others], axis=-1)

        kernel = joined(dense.kernel for dense in inputs)
        bias = joined(x.bias for x in inputs) if layer.use_bias else None
        self._project = _linear(kernel, bias, dtype)
        self._output = _linear(output.kernel, output.bias, dtype)

    def project_memory(self, memory: Any) -> Pair:
        key, value = super().project_memory(memory)
        # A source that is masked completely gives 0.
        return key, ops.where(memory.mask[:, :, :, None], value, 0)

    def project_query(self, x: Any) -> Any:
        return self.rows.split(self._project(x))

    def project(self, x: Any) -> list[Any]:
        parts = _split(self._project(x), self._sizes)
        return [self.rows.split(part) for part in parts]

    def attend(
        self, query: Any, blocks: Sequence[Pair], masks: Sequence[Any]
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
    scores = ops.cast(_products(query, key), "float32")
    if keras.backend.standardize_dtype(mask.dtype) == "bool":
        return ops.where(mask, scores, MASKED)
    return scores + mask


def _attention(
    layer: MultiHeadAttention, rows: Rows, dtype: str, is_self_attention: bool
) -> _CalledAttention:
    is_plain = type(layer) in (MultiHeadAttention, RestrictedSelfAttention)
    if is_plain and all(map(is_plain_dense, _dense_layers(layer))):
        return _PlainAttention(layer, rows, dtype, is_self_attention)
    return _CalledAttention(layer, rows, dtype)


def _dense_layers(attention: MultiHeadAttention) -> list[keras.layers.Dense]:
    return [
        attention.query_projection,
        attention.key_projection,
        attention.value_projection,
        attention.output_projection,
    ]


def embedding_step(
    layer: keras.layers.Layer,
    positions: PositionalEncoding,
    max_length: Any,
    rows: Rows,
    dtype: str,
) -> Callable:
    """Returns the function from ids and positions to `[N, d_model]`.

    Ids are `[B, K]`, and positions a scalar or `[N]`.
    """
    vectors = ops.cast(positions.vectors(ops.arange(max_length)), dtype)
    if type(layer) is not TiedEmbedding:
        return lambda ids, index: (
            rows.flat(layer(ids)) + take(vectors, index, axis=0)
        )
    embeddings = _tensor(layer.embeddings.value)

    def embed(ids: Any, index: Any) -> Any:
        x = take(embeddings, ops.reshape(ids, (-1,)), axis=0)
        x = ops.cast(x, dtype) * layer.factor
        return x + take(vectors, index, axis=0)

    return embed


def memory_step(
    attention: MultiHeadAttention, rows: Rows, dtype: str
) -> Callable[[Any], Pair]:
    """Returns the function from encoded sources `[N, d_model]` to a pair.

    It is what `project_memory` returns for `[B, K, d_model]`.
    """
    key = _dense(attention.key_projection, dtype)
    value = _dense(attention.value_projection, dtype)
    return lambda x: (rows.split(key(x)), rows.split(value(x)))


def output_step(model: Any, rows: Rows) -> Callable[[Any], Any]:
    """Returns the function from states `[N, d_model]` to logits `[N, V]`."""
    projection = model.output_projection()
    if projection is None:
        return rows.called(model.logits)
    matrix, bias = projection
    matrix = _in_dtype(_tensor(matrix.value), model.compute_dtype)
    # In float32 the product with a transposed matrix is slower, without
    # oneDNN twenty times. In bfloat16 it is faster.
    if model.compute_dtype == "bfloat16":
        return _linear(matrix, bias, "bfloat16", _products)
    return _linear(ops.transpose(matrix), bias, model.compute_dtype)


def _residual(residual: keras.layers.Layer, rows: Rows) -> Callable:
    """Returns a function of `[N, d_model]` and a sub-layer."""
    if type(residual) is not Residual:

        def call(x: Any, sublayer: Callable[[Any], Any]) -> Any:
            def of_hypotheses(x: Any) -> Any:
                return rows.of_hypotheses(sublayer(rows.flat(x)))

            return rows.called(lambda x: residual(x, sublayer=of_hypotheses))(x)

        return call
    norm = normalization_step(residual.norm)
    if residual.norm_first:
        return lambda x, sublayer: x + sublayer(norm(x))
    return lambda x, sublayer: norm(x + sublayer(x))


def normalization_step(norm: keras.layers.Layer) -> Callable[[Any], Any]:
    """Returns a layer normalization that reads its weights in float32."""
    if type(norm) is not keras.layers.LayerNormalization:
        return norm
    gamma = ops.cast(norm.gamma.value, "float32")
    beta = ops.cast(norm.beta.value, "float32")

    def normalize(x: Any) -> Any:
        values = ops.cast(x, "float32")
        mean, variance = ops.moments(values, [-1], keepdims=True)
        factor = ops.rsqrt(variance + norm.epsilon) * gamma
        return ops.cast(values * factor + (beta - mean * factor), x.dtype)

    return normalize


def is_plain_dense(layer: keras.layers.Layer) -> bool:
    """Returns whether a layer is a product with its kernel, and no more."""
    return (
        type(layer) is keras.layers.Dense
        and layer.quantization_mode is None
        and not layer.lora_enabled
    )


def _dense(layer: keras.layers.Layer, dtype: str) -> Callable[[Any], Any]:
    """Returns a dense layer with its kernel in the compute dtype."""
    if not is_plain_dense(layer):
        return layer
    linear = _linear(layer.kernel, layer.bias, dtype)
    return lambda x: layer.activation(linear(x))


def _linear(
    kernel: Any, bias: Any, dtype: str, product: Callable = ops.matmul
) -> Callable[[Any], Any]:
    """Returns the function x -> product(x, kernel) + bias."""
    kernel = _in_dtype(kernel, dtype)
    if bias is None:
        return lambda x: product(x, kernel)
    bias = _in_dtype(bias, dtype)
    # On TensorFlow `ops.add` makes it an addition that products include.
    return lambda x: ops.add(product(x, kernel), bias)


def _in_dtype(values: Any, dtype: str) -> Any:
    """Returns a variable's value, converted once if it must be."""
    if isinstance(values, keras.Variable):
        values = values.value
    if keras.backend.standardize_dtype(values.dtype) == dtype:
        return values
    return ops.cast(values, dtype)
