"""Checks that TensorFlow Serving gives the results of a SavedModel.

Usage: python .ci/serving_check.py NAME/VERSION [--address HOST:PORT]

Starts TensorFlow Serving in Docker, or uses the server at an address. It must
not batch requests (`--enable_batching`), since batching rejects scalars. Prints
a line for each check, and fails at the first difference.
"""

import argparse
import contextlib
import os
import subprocess
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's ops

from keras_transformer.inference.opening import open_translator
from keras_transformer.support.errors import InputError

IMAGE = "tensorflow/serving:2.20.0"  # as in docs/serving
TEXTS = (
    "The red dog sleeps.",
    "dog",
    "",
    " ",
    "A house, a tree and a cat: " * 5,
    "Käse\0 猫 🙂",
)


def check(client, path):
    """Sends the same requests to a server and to the SavedModel.

    Args:
        client: The `ServedBackend` of the server.
        path: Folder of the SavedModel.

    Yields:
        A line for each check that succeeded.
    """
    signatures = tf.saved_model.load(path).signatures
    for name, signature in sorted(signatures.items()):
        specs = signature.structured_input_signature[1]
        for texts in (TEXTS, ()):
            inputs = inputs_for(specs, np.array(texts, object))
            tensors = {x: tf.constant(inputs[x], specs[x].dtype) for x in specs}
            found = client.predict(name, inputs)
            check_same(found, signature(**tensors))
            yield f"{name}: {len(texts)} texts, same outputs"
        for value in (
            np.array("dog", object),
            np.array([["dog"]], object),
            np.array([1, 2], np.int32),
        ):
            inputs = inputs_for(specs, value)
            check_error("INVALID_ARGUMENT", client.predict, name, inputs)
            yield f"{name}: error for inputs {value.tolist()}"
        check_error("INVALID_ARGUMENT", client.predict, name, {})
        yield f"{name}: error without inputs"
    server, name = client.name.split("/")[2:4]
    for model in ("no-model", f"{name}/{2**31}"):
        address = f"grpc://{server}/{model}"
        check_error("NOT_FOUND", open_translator, address)
        yield f"error for the model {model}"


def inputs_for(specs, texts):
    """Returns inputs of a signature: texts, and 1 where it takes numbers."""
    return {
        name: texts if spec.dtype == tf.string else spec.dtype.as_numpy_dtype(1)
        for name, spec in specs.items()
    }


def check_same(found, expected):
    """Compares outputs: strings exactly, and scores to 1e-4."""
    assert found.keys() == expected.keys()
    for name, value in found.items():
        reference = expected[name].numpy()
        assert value.dtype == reference.dtype, name
        if value.dtype == np.float32:
            np.testing.assert_allclose(value, reference, rtol=1e-4, atol=1e-4)
        else:
            assert value.tolist() == reference.tolist(), name


def check_error(code, call, *args):
    """Checks that a call fails with a status code."""
    with pytest.raises(InputError, match=code):
        call(*args)


def wait_for(address):
    """Returns the translator of a server as soon as it has loaded a model."""
    for _ in range(300):  # seconds, in which it replays warm-up requests
        with contextlib.suppress(InputError):
            return open_translator(address)
        time.sleep(1)
    return open_translator(address)


def main():
    """Runs the checks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="NAME/VERSION")
    parser.add_argument("--address", help="address of a running server")
    options = parser.parse_args()
    path, server = options.model.resolve(), None
    name = path.parent.name
    if not options.address:
        command = ["docker", "run", "--rm", "--publish", "127.0.0.1:8500:8500"]
        command += ["--env", f"MODEL_NAME={name}"]
        command += ["--volume", f"{path}:/models/{name}/{path.name}:ro"]
        server = subprocess.Popen([*command, IMAGE])
    try:
        address = options.address or "localhost:8500"
        client = wait_for(f"grpc://{address}/{name}/{path.name}")
        for line in check(client.backend, path):
            print(line, flush=True)
    finally:
        if server:
            server.terminate()
            server.wait()
    print("TensorFlow Serving gives the results of the SavedModel.")


if __name__ == "__main__":
    main()
