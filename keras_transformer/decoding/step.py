"""One decoding step: the next token of every hypothesis.

The parts of a decoder that are the paper's are computed with its weights in
few operations; parts of another class are called. It runs on every backend of
Keras and knows no search.

Letters: B = batch, K = hypotheses decoded side by side (the beam), N = B * K,
S = source length, P = positions decoded so far, H = heads, w = width of a
head, V = vocabulary.
"""

from collections.abc import Callable, Sequence
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
    # In place of keras.ops, which here take operations more.
    import tensorflow as tf

    _take = tf.gather
    # Of a variable, each lookup would copy it.
    _tensor = tf.convert_to_tensor

    def _take_rows(x: Any, indices: Any) -> Any:
        return tf.gather(x, indices, batch_dims=1)

    def _products(query: Any, key: Any) -> Any:
        return tf.matmul(query, key, transpose_b=True)

else:
    _take, _tensor = ops.take, ops.convert_to_tensor

    def _take_rows(x: Any, indices: Any) -> Any:
        """`[B, K, n]` and indices `[B, K]` -> `[B, K, n]`."""
        return ops.take_along_axis(x, indices[..., None], axis=1)

    def _products(query: Any, key: Any) -> Any:
        """`[B, H, K, w]` and `[B, H, P, w]` -> `[B, H, K, P]`."""
        return ops.matmul(query, ops.swapaxes(key, -1, -2))


class DecoderCache(NamedTuple):
    """What decoding keeps between steps: a value, never state of a layer.

    The keys of all K hypotheses lie side by side, so that the cache is never
    reordered when hypotheses change places; `ancestry` says which of them
    are a hypothesis' own past. With an `attention_window`, P is at most that.
    """

    layers: tuple[Pair, ...]  # of each layer, [B, H, P*K, w]
    ancestry: Any  # [B, K, P*K] boolean, True = own past
    memory: tuple[Pair, ...]  # of each layer, as its attention wants them
    memory_mask: Any  # [B, 1, S] boolean, True where there is no padding


class StepDecoder:
    """Decodes token by token, with the weights that a model has now.

    Args:
        model: A `Transformer`.
        max_length: The number of positions to decode at most, an integer or
            a scalar tensor.
        beam_size: K, likewise.

    Example:

    >>> import numpy as np, keras_transformer as kt
    >>> config = kt.TransformerConfig.from_preset("tiny", vocab_size=100)
    >>> model = kt.Transformer(config)
    >>> decoder = kt.decoding.StepDecoder(model, max_length=5, beam_size=1)
    >>> cache = decoder.init_cache(model.encode(np.array([[7, 8, 3]])))
    >>> start = np.array([[2]]), np.array([[0]])
    >>> logits, cache = decoder.decode_step(*start, cache, 0)
    >>> tuple(logits.shape)
    (1, 1, 100)
    """

    def __init__(self, model: Any, max_length: Any, beam_size: Any) -> None:
        self._model = model
        self._dtype = model.compute_dtype
        self._beam_size = beam_size
        self._window = model.config.attention_window
        positions = model.target_positions.vectors(ops.arange(max_length))
        self._positions = ops.cast(positions, self._dtype)
        self._embeddings = None
        if type(model.target_embedding) is TiedEmbedding:
            self._embeddings = _tensor(model.target_embedding.embeddings.value)
        shape = _Shape(beam_size, model.config.d_model)
        order = _HeadOrder.of(beam_size, model.config.decoder.num_heads)
        self._layers = [
            _Layer(layer, shape, order, self._dtype)
            for layer in model.decoder.layers
        ]
        self._final_norm = None
        if model.decoder.final_norm is not None:
            self._final_norm = _normalization(model.decoder.final_norm)
        self._shape = shape
        self._output = self._prepare_output()

    def init_cache(self, memory: Any) -> DecoderCache:
        """Returns the cache before the first step.

        Args:
            memory: The encoded sources, from `Transformer.encode`.
        """
        batch = ops.shape(memory.states)[0]
        return DecoderCache(
            tuple(layer.own.empty(memory) for layer in self._layers),
            ops.zeros((batch, self._beam_size, 0), dtype="bool"),
            tuple(layer.cross.project_memory(memory) for layer in self._layers),
            memory.mask,
        )

    def decode_step(
        self, ids: Any, parents: Any, cache: DecoderCache, index: Any
    ) -> tuple[Any, DecoderCache]:
        """Decodes one more token of each hypothesis.

        The K hypotheses are K queries at the same position, so that the
        encoded source is neither repeated nor projected again.

        Args:
            ids: `[B, K]`, the token at position `index` of each hypothesis.
            parents: `[B, K]`, which hypothesis of the previous step each one
                continues. Ignored at the first step.
            cache: From `init_cache` or the previous step.
            index: P, the position of `ids`; 0 for the first.

        Returns:
            Logits `[B, K, V]` of the next token, and the new cache.
        """
        ancestry = _grow_ancestry(cache.ancestry, parents)
        kept = None
        if self._window is not None:
            kept = self._window * self._beam_size
            ancestry = ancestry[:, :, -kept:]

        def append(past: Pair, new: Pair) -> Pair:
            key, value = (
                ops.concatenate(pair, axis=2)
                for pair in zip(past, new, strict=True)
            )
            return (
                (key, value)
                if kept is None
                else (key[:, :, -kept:], value[:, :, -kept:])
            )

        logits, layers = self.step(
            ids, index, cache.layers, ancestry, cache, append
        )
        return logits, cache._replace(layers=layers, ancestry=ancestry)

    def step(
        self,
        ids: Any,
        index: Any,
        past: Sequence[Pair],
        mask: Any,
        cache: DecoderCache,
        append: Callable[[Pair, Pair], Pair],
    ) -> tuple[Any, tuple[Pair, ...]]:
        """Decodes one more token, with keys and values kept by the caller.

        Args:
            ids: As in `decode_step`, and so is `index`.
            past: Keys and values of each layer.
            mask: Boolean `[B, K, keys]`, True = attend, for what `append`
                returns.
            cache: Has the memory and its mask.
            append: Takes the `past` of a layer and the keys and values
                `[B, H, K, w]` of this step; returns those to attend to.

        Returns:
            Logits `[B, K, V]`, and what `append` returned for each layer.
        """
        x = self._embed(ids, index)
        kept = []
        for layer, own, memory in zip(
            self._layers, past, cache.memory, strict=True
        ):
            x, pair = layer(x, own, mask, memory, cache.memory_mask, append)
            kept.append(pair)
        if self._final_norm is not None:
            x = self._final_norm(x)
        return self._shape.of_hypotheses(self._output(x)), tuple(kept)

    def _embed(self, ids: Any, index: Any) -> Any:
        """`[B, K]` -> `[N, d_model]`."""
        layer = self._model.target_embedding
        if self._embeddings is None:
            x = self._shape.flat(layer(ids))
        else:
            x = _take(self._embeddings, ops.reshape(ids, (-1,)), axis=0)
            x = ops.cast(x, self._dtype) * layer.factor
        return x + _take(self._positions, index, axis=0)

    def _prepare_output(self) -> Callable[[Any], Any]:
        """Returns the function from states `[N, d_model]` to logits."""
        projection = self._model.output_projection()
        if projection is None:
            return lambda x: self._shape.flat(
                self._model.logits(self._shape.of_hypotheses(x))
            )
        matrix, bias = projection
        matrix = ops.cast(_tensor(matrix.value), self._dtype)
        # In float32 the product with a transposed matrix is slower, without
        # oneDNN twenty times. In bfloat16 it is faster.
        if self._dtype == "bfloat16":
            return _linear_function(_products, matrix, bias, self._dtype)
        matrix = ops.transpose(matrix)
        return _linear_function(ops.matmul, matrix, bias, self._dtype)


class _Shape(NamedTuple):
    """Products with weights have two dimensions, layers that are called three."""

    beam_size: Any
    d_model: int

    def of_hypotheses(self, x: Any) -> Any:
        """`[N, n]` -> `[B, K, n]`."""
        return ops.reshape(x, (-1, self.beam_size, x.shape[-1]))

    def flat(self, x: Any) -> Any:
        """`[B, K, n]` -> `[N, n]`."""
        return ops.reshape(x, (-1, x.shape[-1]))


class _HeadOrder(NamedTuple):
    """Indices that order the rows of heads.

    Made once, since a transpose takes several times as long.
    """

    beam_size: Any
    num_heads: int
    of_qkv: list[Any]  # rows of queries, of keys, of values
    to_heads: Any  # K, H -> H, K
    to_joint: Any  # H, K -> K, H

    @classmethod
    def of(cls, beam_size: Any, num_heads: int) -> "_HeadOrder":
        """Returns the order for a number of hypotheses and heads."""
        rows = ops.arange(beam_size * 3 * num_heads)
        rows = ops.reshape(rows, (beam_size, 3, num_heads))
        of_qkv = [_flat_transpose(rows[:, i]) for i in range(3)]
        rows = ops.arange(beam_size * num_heads)
        to_heads = _flat_transpose(ops.reshape(rows, (beam_size, num_heads)))
        to_joint = _flat_transpose(ops.reshape(rows, (num_heads, beam_size)))
        return cls(beam_size, num_heads, of_qkv, to_heads, to_joint)

    def split(self, x: Any, order: Any, width: int) -> Any:
        """`[N, H*w]` -> `[B, H, K, w]`, or a part of `[N, 3*H*w]`."""
        rows = self.beam_size * (x.shape[1] // width)
        x = _take(ops.reshape(x, (-1, rows, width)), order, axis=1)
        return ops.reshape(x, (-1, self.num_heads, self.beam_size, width))

    def join(self, x: Any) -> Any:
        """`[B, H, K, w]` -> `[N, H*w]`."""
        width = x.shape[-1]
        x = ops.reshape(x, (-1, self.num_heads * self.beam_size, width))
        x = _take(x, self.to_joint, axis=1)  # [B, K*H, w]
        return ops.reshape(x, (-1, self.num_heads * width))


class _Layer:
    """A decoder layer: its sub-layers in their residual connections."""

    def __init__(
        self,
        layer: DecoderLayer,
        shape: _Shape,
        order: _HeadOrder,
        dtype: str,
    ) -> None:
        def attention(layer: MultiHeadAttention) -> Any:
            if _is_plain_attention(layer):
                return _PlainAttention(layer, order, dtype)
            return _CalledAttention(layer, shape)

        self.own = attention(layer.self_attention)
        self.cross = attention(layer.cross_attention)
        self._own_residual = _residual(layer.self_attention_norm, shape)
        self._cross_residual = _residual(layer.cross_attention_norm, shape)
        self._residual = _residual(layer.feed_forward_norm, shape)
        network = layer.feed_forward
        if type(network) is FeedForward:
            inner = _dense(network.inner, dtype)
            outer = _dense(network.outer, dtype)
            self._feed_forward = lambda x: outer(inner(x))
        else:
            self._feed_forward = lambda x: shape.flat(
                network(shape.of_hypotheses(x))
            )

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
    If d_k and d_v differ, the narrower is widened with zeros, which changes
    nothing.
    """

    def __init__(
        self, attention: MultiHeadAttention, order: _HeadOrder, dtype: str
    ) -> None:
        self._attention = attention
        self._order = order
        self._dtype = dtype
        query, key, value, output = _dense_layers(attention)
        heads = attention.num_heads
        d_k, d_v = query.units // heads, value.units // heads
        self._width = max(d_k, d_v)
        scale = d_k**-0.5
        parts = [
            (self._columns(query.kernel) * scale, self._columns(query.bias)),
            (self._columns(key.kernel), self._columns(key.bias)),
            (self._columns(value.kernel), self._columns(value.bias)),
        ]
        if attention.use_bias:
            parts[0] = parts[0][0], parts[0][1] * scale
        self._query = _linear_function(ops.matmul, *parts[0], dtype)
        kernel, bias = zip(*parts, strict=True)
        bias = ops.concatenate(bias) if attention.use_bias else None
        self._qkv = _linear_function(
            ops.matmul, ops.concatenate(kernel, axis=1), bias, dtype
        )
        self._output = _linear_function(
            ops.matmul, self._rows(output.kernel, d_v), output.bias, dtype
        )

    def empty(self, memory: Any) -> Pair:
        """Returns the keys and values of no position."""
        batch = ops.shape(memory.states)[0]
        shape = (batch, self._attention.num_heads, 0, self._width)
        return (ops.zeros(shape, self._dtype),) * 2

    def project_memory(self, memory: Any) -> Pair:
        """Returns keys `[B, H, S, w]` and values of the memory."""
        key, value = self._attention.project_memory(memory.states)
        # A source that is masked completely gives 0.
        value = ops.where(memory.mask[:, :, :, None], value, 0)
        return self._widen(key, 3), self._widen(value, 3)

    def project(self, x: Any) -> list[Any]:
        """Returns queries, keys and values `[B, H, K, w]`."""
        qkv = self._qkv(x)
        return [
            self._order.split(qkv, order, self._width)
            for order in self._order.of_qkv
        ]

    def project_query(self, x: Any) -> Any:
        """Returns queries `[B, H, K, w]`."""
        return self._order.split(
            self._query(x), self._order.to_heads, self._width
        )

    def attend(self, query: Any, pair: Pair, mask: Any) -> Any:
        """Returns the output `[N, d_model]`."""
        key, value = pair
        scores = ops.cast(_products(query, key), "float32")
        scores = ops.where(mask[:, None], scores, _MASKED)
        # Softmax as five operations: oneDNN's one wakes a thread, which takes
        # longer than all of them.
        scores = ops.exp(scores - ops.max(scores, axis=-1, keepdims=True))
        scores = scores / ops.sum(scores, axis=-1, keepdims=True)
        heads = ops.matmul(ops.cast(scores, self._dtype), value)
        return self._output(self._order.join(heads))

    def _columns(self, variable: Any) -> Any:
        """Returns `[..., H*d]` as `[..., H*w]`."""
        if variable is None:
            return None
        values = ops.cast(variable.value, self._dtype)
        heads = self._attention.num_heads
        shape = tuple(values.shape[:-1])
        values = ops.reshape(values, (*shape, heads, -1))
        values = self._widen(values, len(shape) + 1)
        return ops.reshape(values, (*shape, heads * self._width))

    def _rows(self, kernel: Any, width: int) -> Any:
        """Returns a kernel `[H*d, d_model]` as `[H*w, d_model]`."""
        if width == self._width:
            return kernel
        heads = self._attention.num_heads
        values = ops.reshape(
            ops.cast(kernel.value, self._dtype), (heads, width, -1)
        )
        return ops.reshape(
            self._widen(values, 1), (heads * self._width, values.shape[-1])
        )

    def _widen(self, heads: Any, axis: int) -> Any:
        """Appends zeros, so that `axis` has the length w."""
        missing = self._width - heads.shape[axis]
        if not missing:
            return heads
        rank = len(heads.shape)
        return ops.pad(heads, [[0, missing * (i == axis)] for i in range(rank)])


class _CalledAttention:
    """An attention of which `project_memory` and `attend` are called."""

    def __init__(self, attention: MultiHeadAttention, shape: _Shape) -> None:
        self._attention = attention
        self._shape = shape

    def empty(self, memory: Any) -> Pair:
        pair = self._attention.project_memory(memory.states[:, :1])
        return tuple(x[:, :, :0] for x in pair)

    def project_memory(self, memory: Any) -> Pair:
        return self._attention.project_memory(memory.states)

    def project(self, x: Any) -> list[Any]:
        query = self.project_query(x)
        return [query, *self._attention.project_memory(query)]

    def project_query(self, x: Any) -> Any:
        return self._shape.of_hypotheses(x)  # `attend` projects it

    def attend(self, query: Any, pair: Pair, mask: Any) -> Any:
        output, _ = self._attention.attend(query, *pair, mask)
        return self._shape.flat(output)


def _residual(residual: keras.layers.Layer, shape: _Shape) -> Callable:
    """Returns a function of `[N, d_model]` and a sub-layer."""
    if type(residual) is not Residual:
        return lambda x, sublayer: shape.flat(
            residual(
                shape.of_hypotheses(x),
                sublayer=lambda x: shape.of_hypotheses(sublayer(shape.flat(x))),
            )
        )
    norm = _normalization(residual.norm)
    if residual.norm_first:
        return lambda x, sublayer: x + sublayer(norm(x))
    return lambda x, sublayer: norm(x + sublayer(x))


def _normalization(norm: keras.layers.Layer) -> Callable[[Any], Any]:
    """Returns a layer normalization that reads its weights in float32."""
    if type(norm) is not keras.layers.LayerNormalization:
        return norm
    gamma = ops.cast(norm.gamma.value, "float32")
    beta = ops.cast(norm.beta.value, "float32")

    def normalize(x: Any) -> Any:
        values = ops.cast(x, "float32")
        mean, variance = ops.moments(values, [-1], keepdims=True)
        factor = ops.rsqrt(variance + norm.epsilon) * gamma
        values = values * factor + (beta - mean * factor)
        return ops.cast(values, x.dtype)

    return normalize


def _is_plain_attention(attention: keras.layers.Layer) -> bool:
    return type(attention) in (
        MultiHeadAttention,
        RestrictedSelfAttention,
    ) and all(map(_is_plain_dense, _dense_layers(attention)))


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
    linear = _linear_function(ops.matmul, layer.kernel, layer.bias, dtype)
    return lambda x: layer.activation(linear(x))


def _linear_function(
    product: Callable, kernel: Any, bias: Any, dtype: str
) -> Callable[[Any], Any]:
    """Returns the function x -> product(x, kernel) + bias."""
    kernel = _in_dtype(kernel, dtype)
    if bias is None:
        return lambda x: product(x, kernel)
    bias = _in_dtype(bias, dtype)
    # On TensorFlow `ops.add` adds a bias, which is fused with the product.
    return lambda x: ops.add(product(x, kernel), bias)


def _in_dtype(values: Any, dtype: str) -> Any:
    """Returns a variable's value, converted once if it must be."""
    if isinstance(values, keras.Variable):
        values = values.value
    if keras.backend.standardize_dtype(values.dtype) == dtype:
        return values
    return ops.cast(values, dtype)


def _flat_transpose(rows: Any) -> Any:
    return ops.reshape(ops.transpose(rows), (-1,))


def _grow_ancestry(ancestry: Any, parents: Any) -> Any:
    """`[B, K, P*K]` -> `[B, K, (P+1)*K]`: adds this step to the parents'."""
    past = _take_rows(ancestry, parents)
    slots = ops.arange(ops.shape(parents)[1], dtype=parents.dtype)
    own = ops.equal(ops.zeros_like(parents)[:, :, None] + slots[:, None], slots)
    return ops.concatenate([past, own], axis=2)
