"""Translates with a SavedModel, without any code of `keras_transformer`.

Reads two lines of JSON from standard input: where to import TensorFlow from,
and, when that is done, an object with `path`, that of the model, and `texts`.
Prints a JSON list of [translations, scores,
source_truncated, at_length_limit] as its last line. Exits with code 3 if
TensorFlow or tensorflow-text cannot be imported.
"""

import gc
import json
import os
import sys
import traceback

IMPORT_FAILED = 3


def main() -> None:
    """Runs the program."""
    gc.disable()  # a fifth of the time, in a process that ends soon
    sys.path[:] = json.loads(sys.stdin.readline())
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    try:
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  registers the tokenizer's ops
    except Exception:  # such as a library built for another TensorFlow
        traceback.print_exc()
        sys.exit(IMPORT_FAILED)
    request = json.loads(sys.stdin.readline())
    model = tf.saved_model.load(request["path"])
    translate = model.signatures["serving_default"]
    rows = []
    for text in request["texts"]:
        outputs = translate(text=tf.constant([text]))
        # The fields of the program's `Translation`.
        names = ["translations", "scores", "source_truncated"]
        names += ["at_length_limit"]
        rows.append([outputs[name].numpy().tolist()[0] for name in names])
    # Fail if packages were imported that TensorFlow Serving does not have.
    for name in ("keras_transformer", "sentencepiece"):
        if name in sys.modules:
            sys.exit(f"The SavedModel must not depend on {name}.")
    print(json.dumps(rows, default=lambda x: x.decode("utf-8", "replace")))


if __name__ == "__main__":
    main()
