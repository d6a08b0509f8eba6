"""The parts of a decoder, prepared to compute one position at a time.

Those that are the paper's become few operations on its weights: a part is
plain if its class is ours, and its dense layers are Keras' without LoRA and
quantization. Others are called.

Letters are those of `decoding/step.py`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_transformer.layers import (
    DecoderLayer,
    FeedForward,
    MultiHeadAttention,
    Residual,
    RestrictedSelfAttention,
    TiedEmbedding,
)

_MASKED = -1e9  # exp() of it is exactly 0 in float32

Pair = tuple[Any, Any]  # keys and values

if keras.backend.backend() == "tensorflow":
    # keras.ops would add operations to each of these.
    import tensorflow as tf

    _take = tf.gather
    # A lookup in a variable would copy it.
    _tensor = tf.convert_to_tensor

    def _products(query: Any, key: Any) -> Any:
        return tf.matmul(query, key, transpose_b=True)

    def _split(x: Any, sizes: list[int]) -> list[Any]:
        return tf.split(x, sizes, axis=1)

else:
    _take, _tensor = ops.take, ops.convert_to_tensor

    def _products(query: Any, key: Any) -> Any:
        """`[B, H, K, w]` and `[B, H, P, w]` -> `[B, H, K, P]`."""
        return ops.matmul(query, ops.swapaxes(key, -1, -2))

    def _split(x: Any, sizes: list[int]) -> list[Any]:
        ends = [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)]
        return ops.split(x, ends, axis=1)


class Rows(NamedTuple):
    """The order of rows.

    Products with weights have two dimensions, `[N, n]`; layers that are
    called get three. Heads are ordered by an index that is made once: a
    transpose takes several times as long.
    """

    beam_size: Any
    num_heads: int
    to_heads: Any  # K, H -> H, K
    to_joint: Any  # H, K -> K, H

    @classmethod
    def of(cls, beam_size: Any, num_heads: int) -> "Rows":
        def transposed(*shape: Any) -> Any:
            rows = ops.reshape(ops.arange(beam_size * num_heads), shape)
            return ops.reshape(ops.transpose(rows), (-1,))

        return cls(
            beam_size,
            num_heads,
            transposed(beam_size, num_heads),
            transposed(num_heads, beam_size),
        )

    def of_hypotheses(self, x: Any) -> Any:
        """`[N, n]` -> `[B, K, n]`."""
        return ops.reshape(x, (-1, self.beam_size, x.shape[-1]))

    def flat(self, x: Any) -> Any:
        """`[B, K, n]` -> `[N, n]`."""
        return ops.reshape(x, (-1, x.shape[-1]))

    def called(self, layer: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Returns a function of `[N, n]` that calls a layer of `[B, K, n]`."""
        return lambda x: self.flat(layer(self.of_hypotheses(x)))

    def split(self, x: Any) -> Any:
        """`[N, H*w]` -> `[B, H, K, w]`."""
        width = x.shape[1] // self.num_heads
        x = ops.reshape(x, (-1, self.beam_size * self.num_heads, width))
        x = _take(x, self.to_heads, axis=1)
        return ops.reshape(x, (-1, self.num_heads, self.beam_size, width))

    def join(self, x: Any) -> Any:
        """`[B, H, K, w]` -> `[N, H*w]`."""
        width = x.shape[-1]
        x = ops.reshape(x, (-1, self.num_heads * self.beam_size, width))
        x = _take(x, self.to_joint, axis=1)  # [B, K*H, w]
        return ops.reshape(x, (-1, self.num_heads * width))


class LayerStep:
    """A decoder layer: its sub-layers in their residual connections."""

    def __init__(self, layer: DecoderLayer, rows: Rows, dtype: str) -> None:
        def attention(layer: MultiHeadAttention) -> Any:
            if _is_plain_attention(layer):
                return _PlainAttention(layer, rows, dtype)
            return _CalledAttention(layer, rows)

        self.own = attention(layer.self_attention)
        self.cross = attention(layer.cross_attention)
        self._own_residual = _residual(layer.self_attention_norm, rows)
        self._cross_residual = _residual(layer.cross_attention_norm, rows)
        self._residual = _residual(layer.feed_forward_norm, rows)
        network = layer.feed_forward
        self._feed_forward = rows.called(network)
        if type(network) is FeedForward:
            inner = _dense(network.inner, dtype)
            outer = _dense(network.outer, dtype)
            self._feed_forward = lambda x: outer(inner(x))

    def __call__(
        self,
        x: Any,
        past: Pair,
        mask: Any,
        memory: Pair,
        memory_mask: Any,
        append: Callable[[Pair, Pair], Pair],
    ) -> tuple[Any, Pair]:
        """Returns the output `[N, d_model]`, and what `append` returned."""
        kept = None

        def attend_to_self(x: Any) -> Any:
            nonlocal kept
            query, *new = self.own.project(x)
            kept = append(past, new)
            return self.own.attend(query, kept, mask)

        def attend_to_memory(x: Any) -> Any:
            query = self.cross.project_query(x)
            return self.cross.attend(query, memory, memory_mask)

        x = self._own_residual(x, attend_to_self)
        x = self._cross_residual(x, attend_to_memory)
        return self._residual(x, self._feed_forward), kept


class _PlainAttention:
    """`MultiHeadAttention` in few operations.

    Queries, keys and values are one product, which also scales the scores.
    """

    def __init__(
        self, attention: MultiHeadAttention, rows: Rows, dtype: str
    ) -> None:
        self._attention = attention
        self._rows = rows
        self._dtype = dtype
        query, key, value, output = _dense_layers(attention)
        scale = (query.units // attention.num_heads) ** -0.5
        kernels = [_in_dtype(d.kernel, dtype) for d in (query, key, value)]
        kernels[0] = kernels[0] * scale
        biases = [None, None]
        if attention.use_bias:
            parts = [_in_dtype(d.bias, dtype) for d in (query, key, value)]
            parts[0] = parts[0] * scale
            biases = [parts[0], ops.concatenate(parts)]
        self._query = _linear(kernels[0], biases[0], dtype)
        qkv = ops.concatenate(kernels, axis=1)
        self._qkv = _linear(qkv, biases[1], dtype)
        self._sizes = [query.units, key.units, value.units]
        self._output = _linear(output.kernel, output.bias, dtype)

    def empty(self, memory: Any) -> Pair:
        """Returns the keys and values of no position."""
        batch, heads = ops.shape(memory.states)[0], self._rows.num_heads
        widths = (self._sizes[1] // heads, self._sizes[2] // heads)
        return tuple(
            ops.zeros((batch, heads, 0, width), self._dtype) for width in widths
        )

    def project_memory(self, memory: Any) -> Pair:
        """Returns keys and values of the memory, `[B, H, S, w]`."""
        key, value = self._attention.project_memory(memory.states)
        # A source that is masked completely gives 0.
        return key, ops.where(memory.mask[:, :, :, None], value, 0)

    def project(self, x: Any) -> list[Any]:
        """Returns queries, keys and values, `[B, H, K, w]`."""
        parts = _split(self._qkv(x), self._sizes)
        return [self._rows.split(part) for part in parts]

    def project_query(self, x: Any) -> Any:
        """Returns queries `[B, H, K, w]`."""
        return self._rows.split(self._query(x))

    def attend(self, query: Any, pair: Pair, mask: Any) -> Any:
        """Returns the output `[N, d_model]`."""
        key, value = pair
        scores = ops.cast(_products(query, key), "float32")
        scores = ops.where(mask, scores, _MASKED)
        # Softmax as five operations: oneDNN's one wakes a thread, which takes
        # longer than all of them.
        scores = ops.exp(scores - ops.max(scores, axis=-1, keepdims=True))
        scores = scores / ops.sum(scores, axis=-1, keepdims=True)
        heads = ops.matmul(ops.cast(scores, self._dtype), value)
        return self._output(self._rows.join(heads))


class _CalledAttention:
    """An attention of which `project_memory` and `attend` are called."""

    def __init__(self, attention: MultiHeadAttention, rows: Rows) -> None:
        self._attention = attention
        self._rows = rows

    def empty(self, memory: Any) -> Pair:
        return tuple(x[:, :, :0] for x in self.project_memory(memory))

    def project_memory(self, memory: Any) -> Pair:
        return self._attention.project_memory(memory.states)

    def project(self, x: Any) -> list[Any]:
        query = self.project_query(x)
        return [query, *self._attention.project_memory(query)]

    def project_query(self, x: Any) -> Any:
        return self._rows.of_hypotheses(x)  # `attend` projects it

    def attend(self, query: Any, pair: Pair, mask: Any) -> Any:
        output, _ = self._attention.attend(query, *pair, mask[:, 0])
        return self._rows.flat(output)


def embedding_step(model: Any, max_length: Any, rows: Rows) -> Callable:
    """Returns the function from ids `[B, K]` and position to `[N, d_model]`."""
    layer, dtype = model.target_embedding, model.compute_dtype
    vectors = model.target_positions.vectors(ops.arange(max_length))
    vectors = ops.cast(vectors, dtype)
    if type(layer) is not TiedEmbedding:
        return lambda ids, index: (
            rows.flat(layer(ids)) + _take(vectors, index, axis=0)
        )
    embeddings = _tensor(layer.embeddings.value)

    def embed(ids: Any, index: Any) -> Any:
        x = _take(embeddings, ops.reshape(ids, (-1,)), axis=0)
        x = ops.cast(x, dtype) * layer.factor
        return x + _take(vectors, index, axis=0)

    return embed


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

            x = rows.of_hypotheses(x)
            return rows.flat(residual(x, sublayer=of_hypotheses))

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


def _is_plain_attention(attention: keras.layers.Layer) -> bool:
    plain = (MultiHeadAttention, RestrictedSelfAttention)
    return type(attention) in plain and all(
        map(_is_plain_dense, _dense_layers(attention))
    )


def _dense_layers(attention: MultiHeadAttention) -> list[keras.layers.Dense]:
    return [
        attention.query_projection,
        attention.key_projection,
        attention.value_projection,
        attention.output_projection,
    ]


def _is_plain_dense(layer: keras.layers.Layer) -> bool:
    """Returns whether a layer is a product with its kernel, and no more."""
    return (
        type(layer) is keras.layers.Dense
        and layer.quantization_mode is None
        and not layer.lora_enabled
    )


def _dense(layer: keras.layers.Layer, dtype: str) -> Callable[[Any], Any]:
    """Returns a dense layer with its kernel in the compute dtype."""
    if not _is_plain_dense(layer):
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
