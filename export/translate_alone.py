"""Translates with a SavedModel; needs TensorFlow and tensorflow-text only.

Usage: python translate_alone.py FOLDER
Reads a JSON list of texts from standard input, and prints a JSON list of
[translations, scores, truncated] as its last line.
"""

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's ops


def main() -> None:
    """Runs the program."""
    texts = json.load(sys.stdin)
    translate = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
    outputs = translate(text=tf.constant(texts, tf.string))
    rows = zip(
        outputs["translations"].numpy().tolist(),
        outputs["scores"].numpy().tolist(),
        outputs["truncated"].numpy().tolist(),
        strict=True,
    )
    print(
        json.dumps(
            [
                ([t.decode("utf-8", "replace") for t in found], scores, cut)
                for found, scores, cut in rows
            ]
        )
    )


if __name__ == "__main__":
    main()
