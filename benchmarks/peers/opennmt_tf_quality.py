"""Trains OpenNMT-tf's Transformer; see quality.py.

A step is that of opennmt_tf.py. The first embeddings are as large as ours, with
the mode `defaults` as OpenNMT-tf makes them.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pathlib
import tempfile

import numpy as np
import opennmt
import opennmt_tf
import quality
import tensorflow as tf
import workload

_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"


def as_examples(ids: tf.Tensor) -> tuple[dict, dict]:
    """Returns features and labels of ids `[3, rows, length]`."""
    source, target, labels = tf.unstack(ids)
    source_length, length = (
        tf.math.count_nonzero(x != quality.PAD, axis=1, dtype=tf.int32)
        for x in (source, labels)
    )
    return (
        {"ids": source, "length": source_length},
        {"ids": target, "ids_out": labels, "length": length},
    )


def main() -> None:
    """Trains and prints the result."""
    options = quality.parse_options(__doc__, "graph", "defaults")
    settings = options.settings
    tf.keras.utils.set_random_seed(settings.seed)
    model = opennmt_tf.build_model(settings.shape)
    if options.mode != "defaults":
        embedding = model.features_inputter.embedding  # the only one
        deviation = settings.shape.d_model**-0.5
        embedding.assign(tf.random.normal(embedding.shape, stddev=deviation))
    optimizer = opennmt.optimizers.make_optimizer(
        "Adam",
        opennmt.schedules.NoamDecay(
            settings.learning_rate_scale,
            settings.shape.d_model,
            settings.warmup_steps,
        ),
        beta_1=workload.BETA_1,
        beta_2=workload.BETA_2,
        epsilon=workload.EPSILON,
    )

    @tf.function(input_signature=[tf.TensorSpec([3, None, None], tf.int32)])
    def step(ids: tf.Tensor) -> tf.Tensor:
        return model.train(*as_examples(ids), optimizer)

    def check(batch: np.ndarray) -> tf.Tensor:
        features, labels = as_examples(tf.constant(batch, tf.int32))
        # It translates too, one token now.
        model.params["maximum_decoding_length"] = 1
        outputs, _ = model(features, labels, training=False)
        # Without label smoothing unless it is told that it trains.
        total, tokens, _ = model.compute_loss(outputs, labels, training=True)
        return total / tokens

    def weights() -> dict[str, np.ndarray]:
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder, "ckpt"))
            reader = tf.train.load_checkpoint(
                tf.train.Checkpoint(model=model).write(path)
            )
            return {
                name.removesuffix(_SUFFIX): reader.get_tensor(name)
                for name in reader.get_variable_to_shape_map()
                if name.startswith("model/")
            }

    recorder = quality.Recorder(options, weights, check)
    quality.train(step, recorder)
    name = "OpenNMT-tf" + ", defaults" * (options.mode == "defaults")
    recorder.report(name, f"{opennmt.__version__}, TensorFlow {tf.__version__}")


if __name__ == "__main__":
    main()
