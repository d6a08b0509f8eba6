"""How a program starts TensorFlow without noise."""

import os
import sys
import tempfile

from keras_transformer.errors import InputError


def import_tensorflow_quietly() -> None:
    """Imports TensorFlow without the lines that it prints meanwhile.

    No setting keeps it from reporting, at every start, that it found oneDNN
    and no GPU: native code writes that to the file descriptor of stderr.

    Raises:
        InputError: If Keras is set to another backend.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    sys.stderr.flush()
    with tempfile.TemporaryFile() as told:
        stderr = os.dup(2)
        os.dup2(told.fileno(), 2)
        try:
            import tensorflow  # noqa: F401
        except BaseException:
            told.seek(0)
            os.write(stderr, told.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
    if os.environ["KERAS_BACKEND"] != "tensorflow":
        raise InputError(
            "Training, search and export need Keras on TensorFlow. Received: "
            f"KERAS_BACKEND={os.environ['KERAS_BACKEND']}; set it to "
            "tensorflow, or unset it."
        )
