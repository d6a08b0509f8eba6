"""Decoding speed of KerasHub's layers and its samplers.

`python kerashub_decoding.py --shape small` in an environment with keras-hub

KerasHub has no Transformer of this kind with `generate`: here its sampler
calls its layers with their caches, as its BART does.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from collections.abc import Callable
from typing import Any

import keras
import keras_hub
import numpy as np
import tensorflow as tf
import workload
from keras import ops

BOS_ID = 2


class Decoding:
    """The layers of an encoder-decoder, and the search with them."""

    def __init__(self, shape: workload.Shape) -> None:
        self.shape = shape
        self.embedding = keras_hub.layers.ReversibleEmbedding(
            shape.vocab_size,
            shape.d_model,
            embeddings_initializer=keras.initializers.RandomNormal(
                stddev=shape.d_model**-0.5
            ),
        )
        self.positions = keras_hub.layers.SinePositionEncoding()
        arguments = dict(
            intermediate_dim=shape.d_ff,
            num_heads=shape.num_heads,
            activation="relu",
            normalize_first=False,
        )
        layers = keras_hub.layers
        count = range(shape.num_layers)
        self.encoder = [layers.TransformerEncoder(**arguments) for _ in count]
        self.decoder = [layers.TransformerDecoder(**arguments) for _ in count]
        ids = np.zeros((1, shape.length), "int32")
        memory = self.encode(ids)
        for layer in self.decoder:
            layer(memory, memory)

    def embed(self, ids: Any, index: Any = 0) -> Any:
        """Returns embeddings plus positions from `index` on."""
        x = self.embedding(ids) * self.shape.d_model**0.5
        return x + self.positions(x, start_index=index)

    def encode(self, source: Any) -> Any:
        """Returns the memory, `[batch, 32, d_model]`."""
        x = self.embed(source)
        for layer in self.encoder:
            x = layer(x)
        return x

    def translate(
        self, source: tf.Tensor, length: int, beam_size: int
    ) -> tf.Tensor:
        """Returns the best translations, `[batch, length]`."""
        shape = self.shape
        batch = ops.shape(source)[0]
        heads = (shape.num_heads, shape.d_model // shape.num_heads)
        memory = ops.repeat(self.encode(source), beam_size, axis=0)
        cross_caches = []
        for layer in self.decoder:
            empty = ops.zeros((batch * beam_size, 2, shape.length, *heads))
            _, _, cross = layer(
                memory[:, :1],
                memory,
                self_attention_cache=empty[:, :, :1],
                self_attention_cache_update_index=0,
                cross_attention_cache=empty,
                cross_attention_cache_update_index=0,
            )
            cross_caches.append(cross)

        def step(prompt: Any, cache: Any, index: Any) -> tuple[Any, Any, Any]:
            ids = ops.slice(prompt, [0, index - 1], [ops.shape(prompt)[0], 1])
            x = self.embed(ids, index - 1)
            grown = []
            for i, layer in enumerate(self.decoder):
                x, layer_cache, _ = layer(
                    x,
                    memory,
                    self_attention_cache=cache[:, i],
                    self_attention_cache_update_index=index - 1,
                    cross_attention_cache=cross_caches[i],
                )
                grown.append(layer_cache)
            logits = self.embedding(x, reverse=True)[:, 0]
            return logits, x, ops.stack(grown, axis=1)

        cache = ops.zeros((batch, shape.num_layers, 2, length + 1, *heads))
        start = ops.full((batch, 1), BOS_ID, dtype="int32")
        rest = ops.zeros((batch, length), dtype="int32")
        sampler = (
            keras_hub.samplers.GreedySampler()
            if beam_size == 1
            else keras_hub.samplers.BeamSampler(beam_size)
        )
        found = sampler(
            step, ops.concatenate([start, rest], axis=1), cache, index=1
        )
        return found[:, 1:]


def main() -> None:
    """Decodes and prints the results."""
    options = workload.parse_decoding_options(__doc__, modes=["xla", "graph"])
    keras.utils.set_random_seed(0)
    decoding = Decoding(options.shape)

    def make_translate(
        length: int, beam_size: int
    ) -> Callable[[np.ndarray], np.ndarray]:
        find = tf.function(
            lambda source: decoding.translate(source, length, beam_size),
            jit_compile=options.mode == "xla",
        )
        return lambda source: find(tf.constant(source)).numpy()

    workload.time_decoding(
        make_translate,
        options,
        "KerasHub",
        f"{keras_hub.__version__}, TensorFlow {tf.__version__}",
    )


if __name__ == "__main__":
    main()
