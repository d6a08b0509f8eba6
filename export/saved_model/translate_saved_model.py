"""Translates with a SavedModel, without any code of `keras_transformer`.

Usage: python translate_saved_model.py FOLDER
Reads a JSON object from standard input: `sys_path`, where to import
TensorFlow from, and `texts`. Prints a JSON list of [translations, scores,
source_truncated, at_length_limit] as its last line. Exits with code 3 if
TensorFlow or tensorflow-text cannot be imported.
"""

import json
import os
import sys
import traceback

IMPORT_FAILED = 3


def main() -> None:
    """Runs the program."""
    request = json.load(sys.stdin)
    sys.path[:] = request["sys_path"]
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    try:
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  registers the tokenizer's ops
    except Exception:  # such as a library built for another TensorFlow
        traceback.print_exc()
        sys.exit(IMPORT_FAILED)
    translate = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
    rows = []
    for text in request["texts"]:
        outputs = translate(text=tf.constant([text]))
        # The fields of the program's `Translation`. Only trees may be repaired.
        names = ["trees" if "trees" in outputs else "translations", "scores"]
        names += ["source_truncated", "at_length_limit"]
        names += ["repaired"] if "repaired" in outputs else []
        rows.append([outputs[name].numpy().tolist()[0] for name in names])
    # Fail if packages were imported that TensorFlow Serving does not have.
    for name in ("keras_transformer", "sentencepiece"):
        if name in sys.modules:
            sys.exit(f"The SavedModel must not depend on {name}.")
    print(json.dumps(rows, default=lambda x: x.decode("utf-8", "replace")))


if __name__ == "__main__":
    main()
