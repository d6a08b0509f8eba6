"""Decodes one token per hypothesis in few TensorFlow operations.

The search uses it in place of `Transformer.decode_step`, which computes the
same. Training does not use it.

Letters: B = batch, K = hypotheses decoded side by side (the beam), N = B * K,
S = source length, P = positions decoded so far, H = heads, w = width of a
head, V = vocabulary.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_transformer.layers import (
    Decoder,
    DecoderLayer,
    FeedForward,
    MultiHeadAttention,
    Residual,
    TiedEmbedding,
)
from keras_transformer.model import Memory, Transformer

_MASKED = -1e9  # exp() of it is exactly 0 in float32


class FastCache(NamedTuple):
    """What decoding keeps between steps."""

    # Keys and values of each layer, [B, H, P*K, w]. Those of all K hypotheses
    # lie side by side, so that they are never reordered. With an
    # `attention_window`, P is at most that.
    layers: tuple[tuple[tf.Tensor, tf.Tensor], ...]
    ancestry: tf.Tensor  # [B, K, P*K] boolean, True = own past
    # Keys [B, H, w, S] and values [B, H, S, w] of the memory, for each layer.
    memory: tuple[tuple[tf.Tensor, tf.Tensor], ...]
    memory_mask: tf.Tensor  # [B, 1, 1, S]


class _Layer(NamedTuple):
    """The weights of a layer.

    What a step reads as it is stored is a variable. A tensor is made once,
    before the loop of the search.
    """

    qkv: Any  # [d_model, 3*H*w]; queries times 1 / sqrt(d_k)
    self_output: Any  # [H*w, d_model]
    self_norm: keras.layers.LayerNormalization
    query: Any  # [d_model, H*w], times 1 / sqrt(d_k)
    cross_output: Any  # [H*w, d_model]
    cross_norm: keras.layers.LayerNormalization
    inner: tuple[Any, Any]  # kernel [d_model, d_ff], bias [d_ff]
    outer: tuple[Any, Any]  # kernel [d_ff, d_model], bias [d_model]
    norm: keras.layers.LayerNormalization


class FastDecoder:
    """Decodes with the weights that a model has now, for one batch of sources.

    Products with weights have two dimensions. Queries, keys and values are
    one product, which also scales the scores. Masks are computed once for
    all layers. If d_k and d_v differ, the narrower is widened with zeros,
    which changes nothing.

    Args:
        model: The model; see `supports`.
        memory: From `model.encode`.
        max_length: Scalar, the number of positions to decode at most.
        beam_size: K, an integer or a scalar tensor.
    """

    def __init__(
        self,
        model: Transformer,
        memory: Memory,
        max_length: Any,
        beam_size: int | tf.Tensor,
    ) -> None:
        self._dtype = model.compute_dtype
        self._d_model = model.config.d_model
        self._heads = model.config.num_heads
        self._d_k = model.config.d_k
        self._width = max(model.config.d_k, model.config.d_v)
        # A tensor: a variable that is looked up in is copied at every reading.
        self._embeddings = tf.convert_to_tensor(
            model.embedding.embeddings.value
        )
        # In float32 the product with a transposed matrix is slower, without
        # oneDNN twenty times. In bfloat16 it is faster.
        self._output = tf.cast(self._embeddings, self._dtype)
        self._transpose_output = self._dtype == "bfloat16"
        if not self._transpose_output:
            self._output = tf.transpose(self._output)
        positions = model.target_positions.vectors(tf.range(max_length))
        self._positions = tf.cast(positions, self._dtype)
        self._beam_size = beam_size
        self._window = model.config.attention_window
        # Rows of heads are put in order by an index, made once: a transpose
        # takes several times as long.
        rows = tf.range(beam_size * 3 * self._heads)
        rows = tf.reshape(rows, [beam_size, 3, self._heads])
        self._qkv_to_heads = [_flat_transpose(rows[:, i]) for i in range(3)]
        rows = tf.range(beam_size * self._heads)
        self._to_heads = _flat_transpose(tf.reshape(rows, [beam_size, -1]))
        self._to_joint = _flat_transpose(tf.reshape(rows, [-1, beam_size]))
        self._layers = [self._prepare(layer) for layer in model.decoder.layers]
        self._memory = tuple(
            self._project(layer, memory) for layer in model.decoder.layers
        )
        self._memory_mask = memory.mask[:, None]

    @staticmethod
    def supports(model: Transformer) -> bool:
        """Returns whether the model's decoder is the paper's.

        What a subclass, a quantized layer or one with LoRA computes, only
        `Transformer.decode_step` knows.
        """
        decoder = model.decoder
        method = getattr(model.decode_step, "__func__", None)
        return (
            method is Transformer.decode_step
            and type(model.embedding) is TiedEmbedding
            and type(decoder) is Decoder
            and decoder.attention_class is MultiHeadAttention
            and decoder.feed_forward_class is FeedForward
            and decoder.residual_class is Residual
            and all(map(_is_plain, _dense_layers(decoder)))
        )

    def init_cache(self) -> FastCache:
        """Returns the cache before the first step."""
        batch = tf.shape(self._memory_mask)[0]
        empty = tf.zeros([batch, self._heads, 0, self._width], self._dtype)
        return FastCache(
            layers=((empty, empty),) * len(self._layers),
            ancestry=tf.zeros([batch, self._beam_size, 0], tf.bool),
            memory=self._memory,
            memory_mask=self._memory_mask,
        )

    def decode_step(
        self, ids: tf.Tensor, parents: tf.Tensor, cache: FastCache, index: Any
    ) -> tuple[tf.Tensor, FastCache]:
        """Decodes one more token of each hypothesis.

        Args:
            ids: `[B, K]`, the token at position `index` of each hypothesis.
            parents: `[B, K]`, which hypothesis of the previous step each one
                continues.
            cache: From `init_cache` or the previous step.
            index: P, the position of `ids`; 0 for the first.

        Returns:
            Logits `[B, K, V]` of the next token, and the new cache.
        """
        x = tf.gather(self._embeddings, tf.reshape(ids, [-1]))  # [N, d_model]
        x = tf.cast(x, self._dtype) * self._d_model**0.5
        x += tf.gather(self._positions, index)
        ancestry = _grow_ancestry(cache.ancestry, parents)
        if self._window is not None:
            kept = self._window * self._beam_size
            ancestry = ancestry[:, :, -kept:]
        mask = ancestry[:, None]  # [B, 1, K, (P+1)*K]
        grown = []
        for layer, past, memory in zip(
            self._layers, cache.layers, cache.memory, strict=True
        ):
            qkv = tf.matmul(x, layer.qkv)
            query, *new = (self._split(qkv, i) for i in self._qkv_to_heads)
            key, value = (
                tf.concat(pair, axis=2) for pair in zip(past, new, strict=True)
            )
            if self._window is not None:
                key, value = key[:, :, -kept:], value[:, :, -kept:]
            scores = tf.matmul(query, key, transpose_b=True)
            output = self._attend(scores, mask, value)
            output = tf.matmul(output, layer.self_output)
            x = self._normalize(x + output, layer.self_norm)

            query = self._split(tf.matmul(x, layer.query), self._to_heads)
            memory_key, memory_value = memory
            scores = tf.matmul(query, memory_key)
            output = self._attend(scores, cache.memory_mask, memory_value)
            output = tf.matmul(output, layer.cross_output)
            x = self._normalize(x + output, layer.cross_norm)

            output = _linear(tf.nn.relu(_linear(x, *layer.inner)), *layer.outer)
            x = self._normalize(x + output, layer.norm)
            grown.append((key, value))
        logits = tf.matmul(
            x, self._output, transpose_b=self._transpose_output
        )  # [N, V]
        logits = tf.reshape(logits, [-1, self._beam_size, logits.shape[1]])
        cache = cache._replace(layers=tuple(grown), ancestry=ancestry)
        return logits, cache

    def _split(self, x: tf.Tensor, to_heads: tf.Tensor) -> tf.Tensor:
        """`[N, H*w]` -> `[B, H, K, w]`, or a part of `[N, 3*H*w]`."""
        rows = self._beam_size * (x.shape[1] // self._width)
        x = tf.reshape(x, [-1, rows, self._width])
        shape = [-1, self._heads, self._beam_size, self._width]
        return tf.reshape(tf.gather(x, to_heads, axis=1), shape)

    def _attend(
        self, scores: tf.Tensor, mask: tf.Tensor, value: tf.Tensor
    ) -> tf.Tensor:
        """Returns the outputs of the heads side by side, `[N, H*w]`."""
        scores = tf.where(mask, tf.cast(scores, tf.float32), _MASKED)
        # Softmax as five operations: oneDNN's one wakes a thread, which takes
        # longer than all of them.
        scores = tf.exp(scores - tf.reduce_max(scores, axis=-1, keepdims=True))
        scores /= tf.reduce_sum(scores, axis=-1, keepdims=True)
        output = tf.matmul(tf.cast(scores, self._dtype), value)  # [B, H, K, w]
        rows = self._heads * self._beam_size
        output = tf.reshape(output, [-1, rows, self._width])
        output = tf.gather(output, self._to_joint, axis=1)  # [B, K*H, w]
        return tf.reshape(output, [-1, self._heads * self._width])

    def _normalize(
        self, x: tf.Tensor, norm: keras.layers.LayerNormalization
    ) -> tf.Tensor:
        x = tf.cast(x, tf.float32)
        gamma = tf.cast(norm.gamma.value, tf.float32)
        beta = tf.cast(norm.beta.value, tf.float32)
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        x = tf.nn.batch_normalization(
            x, mean, variance, beta, gamma, norm.epsilon
        )
        return tf.cast(x, self._dtype)

    def _project(
        self, layer: DecoderLayer, memory: Memory
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns a layer's keys and values of the memory."""
        key, value = layer.cross_attention.project_memory(memory.states)
        # A source that is masked completely gives 0.
        value = tf.where(memory.mask[:, :, :, None], value, 0)
        key = tf.transpose(self._widen(key, 3), [0, 1, 3, 2])
        return key, self._widen(value, 3)

    def _prepare(self, layer: DecoderLayer) -> _Layer:
        own, cross = layer.self_attention, layer.cross_attention
        scale = self._d_k**-0.5
        qkv = [
            self._columns(own.query_projection) * scale,
            self._columns(own.key_projection),
            self._columns(own.value_projection),
        ]
        return _Layer(
            qkv=tf.concat(qkv, axis=1),
            self_output=self._rows(own.output_projection),
            self_norm=layer.self_attention_norm.norm,
            query=self._columns(cross.query_projection) * scale,
            cross_output=self._rows(cross.output_projection),
            cross_norm=layer.cross_attention_norm.norm,
            inner=self._dense(layer.feed_forward.inner),
            outer=self._dense(layer.feed_forward.outer),
            norm=layer.feed_forward_norm.norm,
        )

    def _columns(self, projection: keras.layers.Dense) -> tf.Tensor:
        """Returns a kernel `[d_model, H*d]` as `[d_model, H*w]`."""
        kernel = tf.cast(projection.kernel.value, self._dtype)
        width = kernel.shape[1] // self._heads
        heads = tf.reshape(kernel, [-1, self._heads, width])
        heads = self._widen(heads, axis=2)
        return tf.reshape(heads, [-1, self._heads * self._width])

    def _rows(self, projection: keras.layers.Dense) -> Any:
        """Returns a kernel `[H*d, d_model]` as `[H*w, d_model]`."""
        kernel = self._in_compute_dtype(projection.kernel)
        width = kernel.shape[0] // self._heads
        if width == self._width:
            return kernel
        heads = tf.reshape(kernel, [self._heads, width, -1])
        heads = self._widen(heads, axis=1)
        return tf.reshape(heads, [self._heads * self._width, -1])

    def _widen(self, heads: tf.Tensor, axis: int) -> tf.Tensor:
        """Appends zeros, so that `axis` has the length w."""
        missing = self._width - heads.shape[axis]
        if not missing:
            return heads
        return tf.pad(
            heads,
            [[0, missing * (i == axis)] for i in range(len(heads.shape))],
        )

    def _dense(self, dense: keras.layers.Dense) -> tuple[Any, Any]:
        return (
            self._in_compute_dtype(dense.kernel),
            self._in_compute_dtype(dense.bias),
        )

    def _in_compute_dtype(self, variable: keras.Variable) -> Any:
        """Returns a variable, or a tensor if it must be converted."""
        if variable.dtype == self._dtype:
            return variable.value
        return tf.cast(variable.value, self._dtype)


def _dense_layers(decoder: Decoder) -> Iterator[keras.layers.Dense]:
    for layer in decoder.layers:
        for attention in (layer.self_attention, layer.cross_attention):
            yield attention.query_projection
            yield attention.key_projection
            yield attention.value_projection
            yield attention.output_projection
        yield layer.feed_forward.inner
        yield layer.feed_forward.outer


def _is_plain(layer: keras.layers.Dense) -> bool:
    """Returns whether a layer multiplies by its kernel, and no more."""
    return (
        type(layer) is keras.layers.Dense
        and layer.quantization_mode is None
        and not layer.lora_enabled
    )


def _linear(x: tf.Tensor, kernel: Any, bias: Any) -> tf.Tensor:
    # Three operations with a ReLU, which TensorFlow makes one.
    return tf.nn.bias_add(tf.matmul(x, kernel), bias)


def _flat_transpose(rows: tf.Tensor) -> tf.Tensor:
    return tf.reshape(tf.transpose(rows), [-1])


def _grow_ancestry(ancestry: tf.Tensor, parents: tf.Tensor) -> tf.Tensor:
    """`[B, K, P*K]` -> `[B, K, (P+1)*K]`: adds this step to the parents'."""
    past = tf.gather(ancestry, parents, batch_dims=1)
    batch, beam_size = tf.unstack(tf.shape(parents))
    own = tf.eye(beam_size, batch_shape=[batch], dtype=tf.bool)
    return tf.concat([past, own], axis=2)
