"""The signatures of a LiteRT model: `encode` and `decode_step`.

With a shortlist, `decode_step` ends before the output matrix, and
`output_rows` returns rows of this.

LiteRT's fast kernels derive sizes from the shapes of the inputs, and a reshape
can have only one unknown size. Heads are therefore split and joined by index
inputs, which also determine the batch, beam and length.

Letters: B = batch, S = source length, K = hypotheses per source, H = heads,
w = head width, V = vocabulary, C = candidates per hypothesis.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from keras_transformer.decoding import StepDecoder, parts
from keras_transformer.decoding.operations import prepare_dense
from keras_transformer.decoding.top_k import block_size, top_k
from keras_transformer.layers.attention import MASKED
from keras_transformer.model import Transformer
from keras_transformer.support.errors import InputError

Tensors = dict[str, tf.Tensor]  # by name
Specs = dict[str, tf.TensorSpec]

_MASK: dict[str, list] = {"mask": [None, 1, None, None]}


@dataclasses.dataclass
class IndexedHeads:
    """The methods of `HeadLayout`, with indices as graph inputs."""

    num_heads: int
    inputs: Tensors
    beam_size = None  # rows stay rows

    def split(self, x: tf.Tensor) -> tf.Tensor:
        """`[N, H*w]` -> `[B, H, K, w]`."""
        rows = tf.reshape(x, [-1, x.shape[-1] // self.num_heads])
        return tf.gather(rows, self.inputs[f"heads_{self.num_heads}"])

    def join(self, x: tf.Tensor) -> tf.Tensor:
        """`[B, H, K, w]` -> `[N, H*w]`."""
        rows = tf.reshape(x, [-1, x.shape[-1]])
        rows = tf.gather(rows, self.inputs[f"joint_{self.num_heads}"])
        return tf.reshape(rows, [-1, self.num_heads * x.shape[-1]])


def make_signatures(
    models: Sequence[Transformer], max_length: int, num_candidates: int | None
) -> dict[str, Any]:
    """Returns the functions; `num_candidates` is None with a shortlist."""

    def encode(inputs: Tensors) -> Tensors:
        memory = [x for y in models for x in _memory(y, inputs, max_length)]
        return _by_name("memory_", memory)

    def decode_step(inputs: Tensors) -> Tensors:
        new: list[parts.KeysAndValues] = []
        logits = []
        for model in models:
            indices = range(len(new), len(new) + len(model.decoder.layers))
            decoder, x, pairs = _next_states(model, inputs, indices, max_length)
            new += pairs
            if num_candidates is None:
                return {"states": decoder.states(x)} | _by_name("new_", new)
            logits.append(decoder.logits(x))  # [B*K, V]
        candidates = _candidates(logits, inputs["forced_ids"], num_candidates)
        return candidates | _by_name("new_", new)

    def output_rows(inputs: Tensors) -> Tensors:
        matrix, bias = models[0].output_projection()
        rows = tf.gather(tf.convert_to_tensor(matrix), inputs["ids"])
        last = tf.zeros_like(rows[:, 0])
        last = last if bias is None else tf.gather(bias, inputs["ids"])
        return {"rows": tf.concat([rows, last[:, None]], axis=1)}

    inputs = {encode: _encode_inputs(models)}
    inputs[decode_step] = _decode_step_inputs(models)
    if num_candidates is None:
        inputs[output_rows] = _specs(tf.int32, {"ids": [None]})
    return {
        f.__name__: tf.function(f, autograph=False).get_concrete_function(x)
        for f, x in inputs.items()
    }


def make_listed_output(width: int, num_candidates: int) -> Any:
    """Returns the concrete function of the product with listed rows."""
    rows = tf.ones([num_candidates, width + 1])

    def output(states: tf.Tensor, forced_ids: tf.Tensor) -> Tensors:
        states = tf.pad(states, [[0, 0], [0, 1]], constant_values=1)  # bias
        logits = states @ tf.transpose(rows)
        return _candidates([logits], forced_ids, num_candidates, tf.math.top_k)

    states = tf.TensorSpec([None, width], tf.float32, "states")
    forced_ids = tf.TensorSpec([None, 1], tf.int32, "forced_ids")
    function = tf.function(output, autograph=False)
    return function.get_concrete_function(states, forced_ids)


def _encode_inputs(models: Sequence[Transformer]) -> Specs:
    encoders = {model.config.encoder.num_heads for model in models}
    decoders = {model.config.decoder.num_heads for model in models}
    shapes: dict[str, list] = {"ids": [None], "positions": [None]}
    shapes |= {f"heads_{n}": [None, n, None] for n in encoders | decoders}
    shapes |= {f"joint_{n}": [None] for n in encoders}
    return _specs(tf.int32, shapes) | _specs(tf.float32, _MASK)


def _decode_step_inputs(models: Sequence[Transformer]) -> Specs:
    shapes: dict[str, list] = {"ids": [None], "position": [1]}
    shapes["forced_ids"] = [None, 1]
    pairs: dict[str, list] = {"memory_mask": [None, 1, 1, None]}
    for n, attention in enumerate(_attentions(models)):
        heads = attention.num_heads
        shapes[f"heads_{heads}"] = [None, heads, None]
        shapes[f"joint_{heads}"] = [None]
        keys, values = attention.key_projection, attention.value_projection
        for x in ("", "memory_"):
            pairs[f"{x}keys_{n}"] = [None, heads, None, keys.units // heads]
            pairs[f"{x}values_{n}"] = [None, heads, values.units // heads, None]
    return _specs(tf.int32, shapes) | _specs(tf.float32, _MASK | pairs)


def _candidates(
    logits: Sequence[tf.Tensor],
    forced_ids: tf.Tensor,
    num_candidates: int,
    find_best: Callable = top_k,
) -> Tensors:
    """Returns the C best tokens of each row, and log P of `forced_ids`."""
    values = logits[0]
    if len(logits) > 1:
        # log of the summed probabilities: a constant from the mean's.
        log_probs = [tf.nn.log_softmax(z) for z in logits]
        highest = functools.reduce(tf.maximum, log_probs)
        values = tf.add_n([tf.exp(x - highest) for x in log_probs])
        values = tf.math.log(values) + highest
    size = values.shape[-1]
    forced = tf.gather(values, forced_ids, batch_dims=1)
    rest = 0 if block_size(size) else -size % 64
    if rest and find_best is top_k:
        values = tf.pad(values, [[0, 0], [0, rest]], constant_values=MASKED)
    best, tokens = find_best(values, min(num_candidates, size))
    # The best token's probability, which is never close to 0, gives the
    # normalizer, so that log P is computed for C tokens instead of V.
    probabilities = tf.nn.softmax(values)
    probabilities = tf.gather(probabilities, tokens[:, :1], batch_dims=1)
    total = best[:, :1] - tf.math.log(probabilities)
    return {
        "log_probs": best - total,
        "tokens": tokens,
        "forced_log_probs": forced - total,
    }


def _memory(
    model: Transformer, inputs: Tensors, max_length: int
) -> list[parts.KeysAndValues]:
    """Encodes the sources, and returns keys and values for each layer."""
    heads = IndexedHeads(model.config.encoder.num_heads, inputs)
    memory_heads = IndexedHeads(model.config.decoder.num_heads, inputs)
    # Prepares the weights once, outside the graph.
    with tf.init_scope():
        embed = parts.PreparedEmbedding(
            model.embedding, model.source_positions, max_length, "float32"
        )
        stack = model.encoder.layers
        layers = [parts.PreparedLayer(x, heads, "float32") for x in stack]
        normalize = parts.prepare_normalization(model.encoder.final_norm)
        projections = [
            prepare_dense(dense, "float32")
            for attention in _attentions([model])
            for dense in (attention.key_projection, attention.value_projection)
        ]
    x = embed(inputs["ids"], inputs["positions"])
    for layer in layers:
        x, _ = _call(layer, x, inputs["mask"])
    x = normalize(x)
    projected = [memory_heads.split(project(x)) for project in projections]
    return list(zip(projected[::2], projected[1::2], strict=True))


def _next_states(
    model: Transformer, inputs: Tensors, indices: Sequence[int], max_length: int
) -> tuple[StepDecoder, tf.Tensor, list[parts.KeysAndValues]]:
    """Returns the last layer's output, and new keys and values of each."""
    heads = IndexedHeads(model.config.decoder.num_heads, inputs)
    with tf.init_scope():
        decoder = StepDecoder(model, max_length, None, heads=heads)
    mask, memory_mask = inputs["mask"], inputs["memory_mask"]
    x, new = decoder.embed(inputs["ids"], inputs["position"]), []
    for layer, n in zip(decoder.layers, indices, strict=True):
        past, memory = (
            (inputs[f"{x}keys_{n}"], _transposed(inputs[f"{x}values_{n}"]))
            for x in ("", "memory_")
        )
        x, new_pair = _call(layer, x, mask, past, memory, memory_mask)
        new.append(new_pair)
    return decoder, x, new


def _call(
    layer: parts.PreparedLayer,
    x: tf.Tensor,
    mask: tf.Tensor,
    past: parts.KeysAndValues | None = None,
    memory: parts.KeysAndValues | None = None,
    memory_mask: tf.Tensor | None = None,
) -> tuple[tf.Tensor, parts.KeysAndValues]:
    """Returns the output of a layer, and its new keys and values."""
    if not layer.has_plain_attention:
        raise InputError(
            "LiteRT supports only this library's attention, without LoRA or "
            "quantization. Export a SavedModel instead."
        )
    attention = layer.self_attention
    new: parts.KeysAndValues = ()

    def attend_to_self(x: tf.Tensor) -> tf.Tensor:
        nonlocal new
        query, key, value = attention.project(x)
        new = (key, value)
        if past is None:
            return attention.attend(query, new, mask)
        return attention.attend(query, past, mask, own=new)

    x = layer(x, attend_to_self, memory, memory_mask)
    return x, new


def _transposed(x: tf.Tensor) -> tf.Tensor:
    """`[B, H, k, w]` <-> `[B, H, w, k]`, which XNNPACK packs faster."""
    return tf.transpose(x, [0, 1, 3, 2])


def _attentions(models: Iterable[Transformer]) -> list[Any]:
    return [x.cross_attention for m in models for x in m.decoder.layers]


def _specs(dtype: tf.DType, shapes: dict) -> Specs:
    return {x: tf.TensorSpec(shape, dtype, x) for x, shape in shapes.items()}


def _by_name(prefix: str, pairs: Iterable[parts.KeysAndValues]) -> Tensors:
    tensors = {}
    for n, (keys, values) in enumerate(pairs):
        tensors[f"{prefix}keys_{n}"] = keys
        tensors[f"{prefix}values_{n}"] = _transposed(values)
    return tensors
