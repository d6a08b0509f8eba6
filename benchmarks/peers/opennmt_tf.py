"""Training throughput of OpenNMT-tf's Transformer.

`python opennmt_tf.py --shape small --steps 10` in an environment with
OpenNMT-tf

Loss, gradients and update are those of its `Model.train`, in one `tf.function`
as in its own training loop.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import argparse
import tempfile
from collections.abc import Callable

import numpy as np
import opennmt
import tensorflow as tf
import workload


def build_model(shape: workload.Shape) -> opennmt.models.Model:
    """Returns the model with its weights."""
    model = opennmt.models.Transformer(
        num_layers=shape.num_layers,
        num_units=shape.d_model,
        num_heads=shape.num_heads,
        ffn_inner_dim=shape.d_ff,
        dropout=shape.dropout,
        attention_dropout=0.0,
        ffn_dropout=0.0,
        mha_bias=False,
        pre_norm=False,
        output_layer_bias=False,
        share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
    )
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as vocabulary:
        # OpenNMT-tf adds one id, for unknown words.
        words = ["<blank>", "<s>", "</s>"]
        words += [f"w{i}" for i in range(shape.vocab_size - 1 - len(words))]
        vocabulary.write("\n".join(words) + "\n")
        vocabulary.flush()
        data = dict.fromkeys(
            ("source_vocabulary", "target_vocabulary"), vocabulary.name
        )
        model.initialize(
            data,
            params={
                "label_smoothing": workload.LABEL_SMOOTHING,
                "average_loss_in_time": True,
            },
        )
        model.create_variables()
    return model


def make_step(
    model: opennmt.models.Model, options: argparse.Namespace
) -> Callable[[], tf.Tensor]:
    """Returns a function that trains on the batch and returns the loss."""
    shape = options.shape
    source, target = workload.random_ids(shape)
    length = tf.fill([shape.sentences], shape.length)
    features = {"ids": tf.constant(source), "length": length}
    labels = {
        "ids": tf.constant(target),
        "ids_out": tf.constant(target),
        "length": length,
    }
    optimizer = opennmt.optimizers.make_optimizer(
        "Adam",
        workload.LEARNING_RATE,
        beta_1=workload.BETA_1,
        beta_2=workload.BETA_2,
        epsilon=workload.EPSILON,
    )

    @tf.function(jit_compile=options.mode == "xla")
    def train(features: dict, labels: dict) -> tf.Tensor:
        return model.train(features, labels, optimizer)

    return lambda: train(features, labels)


def main() -> None:
    """Trains and prints the result."""
    options = workload.parse_options(__doc__, modes=["graph", "xla"])
    model = build_model(options.shape)
    seconds, losses = workload.time_steps(make_step(model, options), options)
    workload.report(
        options,
        "OpenNMT-tf",
        f"{opennmt.__version__}, TensorFlow {tf.__version__}",
        sum(int(np.prod(w.shape)) for w in model.trainable_weights),
        seconds,
        losses,
    )


if __name__ == "__main__":
    main()
