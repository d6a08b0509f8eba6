"""Training throughput of an encoder-decoder of KerasHub's layers.

`python kerashub.py --shape small --steps 10` in an environment with keras-hub

KerasHub's layers apply their dropout rate to the attention scores too. This is
switched off here, since the other systems do not. Their projections have
biases; ours have none.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from typing import Any

import keras
import keras_fit
import keras_hub
import workload
from keras import ops


def smoothed_cross_entropy(labels: Any, logits: Any) -> Any:
    """Returns the cross-entropy per token; each other token has e / (V - 1).

    Keras has label smoothing only for one-hot labels.
    """
    vocab_size = logits.shape[-1]
    other = workload.LABEL_SMOOTHING / (vocab_size - 1)
    right = ops.one_hot(labels, vocab_size)
    smoothed = other + (1 - workload.LABEL_SMOOTHING - other) * right
    return keras.losses.categorical_crossentropy(
        smoothed, ops.cast(logits, "float32"), from_logits=True
    )


def build_model(
    shape: workload.Shape, pad_id: int | None = None
) -> keras.Model:
    """Returns the model, in the current dtype policy.

    Without a `pad_id` no id is padding.
    """
    embedding = keras_hub.layers.ReversibleEmbedding(
        shape.vocab_size,
        shape.d_model,
        embeddings_initializer=keras.initializers.RandomNormal(
            stddev=shape.d_model**-0.5
        ),
        reverse_dtype=keras.config.dtype_policy().compute_dtype,
    )

    def embed(ids: Any) -> Any:
        x = embedding(ids) * shape.d_model**0.5
        x = x + keras_hub.layers.SinePositionEncoding()(x)
        return keras.layers.Dropout(shape.dropout)(x)

    arguments = dict(
        intermediate_dim=shape.d_ff,
        num_heads=shape.num_heads,
        dropout=shape.dropout,
        activation="relu",
        normalize_first=False,
    )
    source = keras.Input((shape.length,), dtype="int32", name="source")
    target = keras.Input((shape.length,), dtype="int32", name="target")
    masks = [None, None]
    if pad_id is not None:
        masks = [ops.not_equal(ids, pad_id) for ids in (source, target)]
    memory, x = embed(source), embed(target)
    for _ in range(shape.num_layers):
        layer = keras_hub.layers.TransformerEncoder(**arguments)
        memory = layer(memory, padding_mask=masks[0])
    for _ in range(shape.num_layers):
        layer = keras_hub.layers.TransformerDecoder(**arguments)
        x = layer(
            x,
            memory,
            decoder_padding_mask=masks[1],
            encoder_padding_mask=masks[0],
        )
    logits = embedding(x, reverse=True)
    model = keras.Model({"source": source, "target": target}, logits)
    for layer in model.layers:
        for name in ("_self_attention_layer", "_cross_attention_layer"):
            if attention := getattr(layer, name, None):
                attention._dropout = 0.0
    return model


def main() -> None:
    """Trains and prints the result."""
    options = workload.parse_options(
        __doc__, modes=["xla", "graph"], dtypes=["float32", "mixed_bfloat16"]
    )
    keras.config.set_dtype_policy(options.dtype)
    model = build_model(options.shape)
    model.compile(
        keras.optimizers.Adam(
            workload.LEARNING_RATE,
            beta_1=workload.BETA_1,
            beta_2=workload.BETA_2,
            epsilon=workload.EPSILON,
        ),
        loss=smoothed_cross_entropy,
        jit_compile=options.mode == "xla",
    )
    keras_fit.fit_and_report(
        model,
        keras_fit.batches(options),
        options,
        "KerasHub",
        keras_hub.__version__,
    )


if __name__ == "__main__":
    main()
