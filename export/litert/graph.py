"""The two signatures of a LiteRT model: `encode` and `decode_step`.

LiteRT's fast kernels need sizes that follow from the sizes of the inputs, and
a reshape can have one unknown size only. Batch, beam and lengths therefore
come with indices, inputs of the graph, which order the heads of attention.

Letters: B = batch, S = source length, K = hypotheses of a source, H = heads,
w = width of a head, V = vocabulary, C = candidates of a hypothesis.
"""

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_transformer.decoding import StepDecoder, parts
from keras_transformer.decoding.rows import Rows
from keras_transformer.decoding.step import DecoderCache
from keras_transformer.decoding.top_k import block_size, top_k
from keras_transformer.layers import Encoder, EncoderLayer
from keras_transformer.layers.attention import MASKED
from keras_transformer.layers.positional_encoding import PositionalEncoding
from keras_transformer.model import Transformer
from keras_transformer.support.errors import InputError

Tensors = dict[str, tf.Tensor]  # by name


class _IndexedRows(Rows):
    """Orders heads by indices that are inputs of the graph."""

    def __init__(self, num_heads: int) -> None:
        self.num_heads = num_heads

    def use(self, inputs: Tensors) -> None:
        """Takes the indices from the inputs of a graph."""
        self._to_heads = inputs[f"heads_{self.num_heads}"]  # [B, H, K]
        self._to_joint = inputs.get(f"joint_{self.num_heads}")  # [B*K*H]

    def of_hypotheses(self, x: tf.Tensor) -> tf.Tensor:
        return x  # layers are called with two dimensions

    def split(self, x: tf.Tensor) -> tf.Tensor:
        rows = tf.reshape(x, [-1, x.shape[-1] // self.num_heads])
        return tf.gather(rows, self._to_heads)

    def join(self, x: tf.Tensor) -> tf.Tensor:
        rows = tf.reshape(x, [-1, x.shape[-1]])
        width = self.num_heads * x.shape[-1]
        return tf.reshape(tf.gather(rows, self._to_joint), [-1, width])


class Graphs(tf.Module):
    """Makes the signatures of an ensemble, which may be a single model.

    Args:
        models: The models, which compute in float32.
        max_length: Of the longest source and target.
        num_candidates: C.

    Raises:
        InputError: If an attention is of a class of its own, or a class
            overrides what the graphs leave out.
    """

    def __init__(
        self,
        models: Sequence[Transformer],
        max_length: int,
        num_candidates: int,
    ) -> None:
        super().__init__()
        self._num_candidates = num_candidates
        self._models = [_Model(model, max_length) for model in models]
        # What a SavedModel contains is found through attributes.
        self.variables_of_models = [
            weight.value for model in models for weight in model.weights
        ]

    def signatures(self) -> dict[str, Any]:
        """Returns concrete functions by name."""
        functions = {"encode": self._encode, "decode_step": self._decode_step}
        return {
            name: tf.function(
                lambda inputs, call=function: call(inputs), autograph=False
            ).get_concrete_function(self._inputs(name))
            for name, function in functions.items()
        }

    def _inputs(self, signature: str) -> dict[str, tf.TensorSpec]:
        encodes = signature == "encode"
        shapes: dict[str, list] = {"ids": [None]}
        numbers = {model.memory_rows.num_heads for model in self._models}
        shapes |= {f"heads_{n}": [None, n, None] for n in numbers}
        if encodes:
            numbers = {model.encoder_rows.num_heads for model in self._models}
            shapes |= {f"heads_{n}": [None, n, None] for n in numbers}
            shapes |= {"positions": [None]}
        else:
            shapes |= {"position": [1], "forced_ids": [None, 1]}
        shapes |= {f"joint_{n}": [None] for n in numbers}
        specs = {
            name: tf.TensorSpec(shape, tf.int32, name)
            for name, shape in shapes.items()
        }
        floats: dict[str, list] = {"mask": [None, 1, None, None]}
        if not encodes:
            floats["memory_mask"] = [None, 1, 1, None]
            for name, sizes in self._past_shapes().items():
                floats[name] = floats[f"memory_{name}"] = sizes
        return specs | {
            name: tf.TensorSpec(shape, tf.float32, name)
            for name, shape in floats.items()
        }

    def _past_shapes(self) -> dict[str, list]:
        shapes: dict[str, list] = {}
        for model in self._models:
            for attention in model.attentions:
                n, heads = len(shapes) // 2, attention.num_heads
                for kind in ("key", "value"):
                    dense = getattr(attention, f"{kind}_projection")
                    width = dense.units // heads
                    shapes[f"{kind}s_{n}"] = [None, heads, None, width]
        return shapes

    def _encode(self, inputs: Tensors) -> Tensors:
        pairs = [
            pair for model in self._models for pair in model.encode(inputs)
        ]
        return _named("memory_", pairs)

    def _decode_step(self, inputs: Tensors) -> Tensors:
        def pairs(prefix: str) -> list[parts.Pair]:
            count = sum(len(model.attentions) for model in self._models)
            return [
                (inputs[f"{prefix}keys_{n}"], inputs[f"{prefix}values_{n}"])
                for n in range(count)
            ]

        past, memory = pairs(""), pairs("memory_")
        new: list[parts.Pair] = []
        logits = []
        for model in self._models:
            mine = slice(len(new), len(new) + len(model.attentions))
            z, blocks = model.decode_step(inputs, past[mine], memory[mine])
            logits.append(z)  # [B*K, V]
            new += [kept[-1] for kept in blocks]
        candidates = self._candidates(logits, inputs["forced_ids"])
        return candidates | _named("new_", new)

    def _candidates(
        self, logits: Sequence[tf.Tensor], forced_ids: tf.Tensor
    ) -> Tensors:
        """Returns the C best tokens of each row, and log P of a given one."""
        values = logits[0]
        if len(logits) > 1:
            # The logarithm of the sum of probabilities, which is constant
            # away from that of their mean.
            log_probs = [tf.nn.log_softmax(z) for z in logits]
            highest = functools.reduce(tf.maximum, log_probs)
            values = tf.add_n([tf.exp(x - highest) for x in log_probs])
            values = tf.math.log(values) + highest
        size = values.shape[-1]
        forced = tf.gather(values, forced_ids, batch_dims=1)
        rest = 0 if block_size(size) else -size % 64
        if rest:
            values = tf.pad(values, [[0, 0], [0, rest]], constant_values=MASKED)
        count = min(self._num_candidates, size)
        best, tokens = top_k(values, count)
        # log P is computed of few tokens. That of the best one, which is never
        # close to 0, gives the logarithm that is missing in all logits.
        probabilities = tf.gather(
            tf.nn.softmax(values), tokens[:, :1], batch_dims=1
        )
        total = best[:, :1] - tf.math.log(probabilities)
        return {
            "log_probs": best - total,
            "tokens": tokens,
            "forced_log_probs": forced - total,
        }


class _Model:
    """What the graphs compute of one model."""

    def __init__(self, model: Transformer, max_length: int) -> None:
        _check_not_overridden(model)
        config = model.config
        self.attentions = [x.cross_attention for x in model.decoder.layers]
        self.encoder_rows = _IndexedRows(config.encoder.num_heads)
        self.memory_rows = _IndexedRows(config.decoder.num_heads)
        self._decoder = StepDecoder(
            model, max_length, None, rows=self.memory_rows
        )
        self._embed = parts.embedding_step(
            model.embedding,
            model.source_positions,
            max_length,
            self.encoder_rows,
            "float32",
        )
        self._layers = [
            parts.LayerStep(layer, self.encoder_rows, "float32")
            for layer in model.encoder.layers
        ]
        norm = model.encoder.final_norm
        self._normalize = parts.normalization_step(norm) if norm else None
        self._memory = [
            parts.memory_step(attention, self.memory_rows, "float32")
            for attention in self.attentions
        ]
        if not all(x.is_plain for x in (*self._layers, *self._decoder.layers)):
            raise InputError(
                "A model to export to LiteRT must have the attention of this "
                "library, without LoRA and quantization. Received: another "
                "class of attention, or changed layers. Export a SavedModel "
                "instead."
            )

    def encode(self, inputs: Tensors) -> list[parts.Pair]:
        """Returns keys and values of the memory for each layer."""
        self.encoder_rows.use(inputs)
        self.memory_rows.use(inputs)
        x = self._embed(inputs["ids"], inputs["positions"])
        for layer in self._layers:
            x, _ = layer(
                x, None, [inputs["mask"]], None, None, lambda _, new: [new]
            )
        if self._normalize:
            x = self._normalize(x)
        return [project(x) for project in self._memory]

    def decode_step(
        self,
        inputs: Tensors,
        past: Sequence[parts.Pair],
        memory: Sequence[parts.Pair],
    ) -> tuple[tf.Tensor, Any]:
        """Returns logits `[B*K, V]`, and the blocks of each layer."""
        self.memory_rows.use(inputs)
        return self._decoder.step(
            inputs["ids"],
            inputs["position"],
            past,
            [inputs["mask"], None],
            DecoderCache((), None, tuple(memory), inputs["memory_mask"]),
            lambda past, new: [past, new],
        )


def _check_not_overridden(model: Transformer) -> None:
    """Raises InputError if a class overrides what the graphs leave out."""
    parts_of_encoder = [
        (model, Transformer, "encode"),
        (model.encoder, Encoder, "call"),
        (model.source_positions, PositionalEncoding, "call"),
        *((layer, EncoderLayer, "call") for layer in model.encoder.layers),
    ]
    for part, ours, name in parts_of_encoder:
        if getattr(type(part), name) is not getattr(ours, name):
            raise InputError(
                "A model to export to LiteRT must not override "
                f"`{ours.__name__}.{name}`. Received: another `{name}` of "
                f"{type(part).__name__}. Export a SavedModel instead."
            )
    try:
        model.check_step_by_step()
    except ValueError as error:
        raise InputError(str(error)) from error


def _named(prefix: str, pairs: Sequence[parts.Pair]) -> Tensors:
    return {
        f"{prefix}{kind}_{n}": x
        for n, pair in enumerate(pairs)
        for kind, x in zip(("keys", "values"), pair, strict=True)
    }
