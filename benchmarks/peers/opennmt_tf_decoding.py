"""Decoding speed of OpenNMT-tf's Transformer.

`python opennmt_tf_decoding.py --shape small` in an environment with
OpenNMT-tf
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from collections.abc import Callable

import numpy as np
import opennmt
import tensorflow as tf
import workload
from opennmt_tf import build_model


def main() -> None:
    """Decodes and prints the results."""
    options = workload.parse_decoding_options(__doc__, modes=["graph"])
    tf.random.set_seed(0)
    model = build_model(options.shape)

    def make_translate(
        length: int, beam_size: int
    ) -> Callable[[np.ndarray], np.ndarray]:
        model.params.update(
            beam_width=beam_size,
            length_penalty=workload.ALPHA,
            minimum_decoding_length=length,
            maximum_decoding_length=length,
        )

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
        def infer(source: tf.Tensor) -> tf.Tensor:
            lengths = tf.fill([tf.shape(source)[0]], tf.shape(source)[1])
            features = {"ids": source, "length": lengths}
            return model.infer(features)["tokens"][:, 0]

        return lambda source: infer(tf.constant(source)).numpy()

    workload.time_decoding(
        make_translate,
        options,
        "OpenNMT-tf",
        f"{opennmt.__version__}, TensorFlow {tf.__version__}",
    )


if __name__ == "__main__":
    main()
