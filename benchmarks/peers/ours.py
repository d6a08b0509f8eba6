"""Training throughput of this library, with its own training step.

python benchmarks/peers/ours.py --shape small --steps 10
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from importlib.metadata import version

import keras_fit
import tensorflow as tf
import workload

import keras_transformer as kt
from keras_transformer.distributed_fit import Training
from keras_transformer.train.strategy import distribute


def main() -> None:
    """Trains and prints the result."""
    options = workload.parse_options(
        __doc__, modes=["graph"], dtypes=["float32", "mixed_bfloat16"]
    )
    shape = options.shape
    config = kt.TransformerConfig(
        vocab_size=shape.vocab_size,
        num_layers=shape.num_layers,
        d_model=shape.d_model,
        d_ff=shape.d_ff,
        num_heads=shape.num_heads,
        dropout=workload.DROPOUT,
    )
    # The rate rises to that of the others.
    steps = options.steps * (1 + options.repetitions)
    model = Training(
        kt.Transformer(config, dtype=options.dtype),
        workload.LABEL_SMOOTHING,
        warmup_steps=steps,
        learning_rate_scale=workload.LEARNING_RATE
        * (shape.d_model * steps) ** 0.5,
    )
    keras_fit.fit_and_report(
        model,
        distribute(keras_fit.batches(options), tf.distribute.get_strategy()),
        options,
        "ours",
        version("keras-transformer-nmt"),
    )


if __name__ == "__main__":
    main()
