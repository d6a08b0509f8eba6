"""Checks that TensorFlow Serving answers as the SavedModel in this process.

Usage: python tests/helpers/serving_check.py NAME/VERSION [--address HOST:PORT]

Starts TensorFlow Serving: `tensorflow_model_server` if it is installed, else
its Docker image. With --address a server that runs already
is checked. In both cases it must not batch requests (`--enable_batching`),
which refuses scalars. Prints a line for each check, and fails at the first
difference.
"""

import argparse
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import grpc
import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's ops
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_service_pb2_grpc,
)

from keras_transformer.inference.opening import open_translator
from keras_transformer.inference.served import ServedTranslator
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
_SECONDS = 300.0  # to load the model, and replay its warm-up requests


def check(client: ServedTranslator, path: Path) -> Iterator[str]:
    """Sends the same requests to a served model and to its SavedModel.

    Args:
        client: The translator of the served model.
        path: Folder of the same SavedModel.

    Yields:
        A line for each check that succeeded.

    Raises:
        AssertionError: If an answer differs.
        InputError: If the server does not answer.
    """
    signatures = tf.saved_model.load(path).signatures
    for name, signature in sorted(signatures.items()):
        specs = signature.structured_input_signature[1]
        for what, texts in (("texts", TEXTS), ("no texts", ())):
            inputs = _inputs(specs, np.array(texts, object))
            expected = signature(**_tensors(specs, inputs))
            assert_same(client.predict(name, **inputs), expected)
            yield f"{name}: {what}, {len(expected)} outputs are the same"
        for what, value in (
            ("a scalar", np.array("dog", object)),
            ("rank 2", np.array([["dog"]], object)),
            ("numbers", np.array([1, 2], np.int32)),
        ):
            inputs = _inputs(specs, value)
            _assert_refused("INVALID_ARGUMENT", client.predict, name, **inputs)
            yield f"{name}: {what} refused"
        _assert_refused("INVALID_ARGUMENT", client.predict, name)
        yield f"{name}: missing inputs refused"
    texts = [text[:length] for text in TEXTS for length in range(20)]
    for text, found in zip(texts, client.translate(texts), strict=True):
        expected = signatures["serving_default"](text=tf.constant([text]))
        assert found.texts == [
            translation.decode("utf-8", "replace")
            for translation in expected["translations"].numpy()[0]
        ], (text, found)
        np.testing.assert_allclose(
            found.scores, expected["scores"][0], rtol=1e-4, atol=1e-4
        )
    yield f"{len(texts)} texts in batches are translated as each alone"
    server, name = client.name.split("/")[2:4]
    for model in ("no-model", f"{name}/{2**31}"):
        address = f"grpc://{server}/{model}"
        _assert_refused("NOT_FOUND", open_translator, address)
    yield "an unknown model and an unknown version are refused"


@contextlib.contextmanager
def serving(path: Path) -> Iterator[str]:
    """Serves a model with TensorFlow Serving, and stops it.

    Args:
        path: The model, `NAME/VERSION`.

    Yields:
        The address.
    """
    name, port = path.parent.name, _free_port()
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryFile() as log,
    ):
        if shutil.which("tensorflow_model_server"):
            # Other versions of the model are not served.
            Path(folder, path.name).symlink_to(path)
            command = [
                "tensorflow_model_server",
                f"--port={port}",
                f"--model_name={name}",
                f"--model_base_path={folder}",
            ]
        elif shutil.which("docker"):
            if subprocess.run(["docker", "pull", IMAGE]).returncode:
                sys.exit(
                    f"Docker could not get the image {IMAGE}. Start its "
                    "daemon, install tensorflow_model_server, or pass "
                    "--address HOST:PORT of a server."
                )
            command = ["docker", "run", "--rm", "--init"]
            command += ["--publish", f"127.0.0.1:{port}:8500"]
            command += ["--env", f"MODEL_NAME={name}"]
            command += ["--volume", f"{path}:/models/{name}/{path.name}:ro"]
            command.append(IMAGE)
        else:
            sys.exit(
                "Neither tensorflow_model_server nor docker is installed. "
                "Install one of them, or pass --address HOST:PORT of a server."
            )
        print(" ".join(command), flush=True)
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _wait(name, f"localhost:{port}", process)
            yield f"localhost:{port}"
        except TimeoutError as error:
            log.seek(0)
            output = log.read().decode("utf-8", "replace")[-4000:]
            sys.exit(f"{error} Its output:\n{output}")
        finally:
            process.terminate()
            process.wait()


def _wait(name: str, address: str, process: subprocess.Popen) -> None:
    """Waits until a model is available, or raises TimeoutError."""
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = name
    available = get_model_status_pb2.ModelVersionStatus.AVAILABLE
    deadline = time.monotonic() + _SECONDS
    with grpc.insecure_channel(address) as channel:
        service = model_service_pb2_grpc.ModelServiceStub(channel)
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise TimeoutError(
                    f"The server ended with exit code {process.returncode}."
                )
            with contextlib.suppress(grpc.RpcError):
                versions = service.GetModelStatus(request, timeout=5)
                if any(
                    version.state == available
                    for version in versions.model_version_status
                ):
                    return
            time.sleep(0.5)
    raise TimeoutError(f"The model was not loaded in {_SECONDS:.0f} seconds.")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _inputs(specs: dict, texts: np.ndarray) -> dict:
    """Returns inputs of a signature: texts, and numbers where it takes them."""
    return {
        name: texts if spec.dtype == tf.string else spec.dtype.as_numpy_dtype(1)
        for name, spec in specs.items()
    }


def _tensors(specs: dict, inputs: dict) -> dict:
    return {n: tf.constant(x, specs[n].dtype) for n, x in inputs.items()}


def assert_same(found: dict, expected: dict) -> None:
    """Checks the outputs of a server, strings exactly and scores to 1e-4."""
    assert found.keys() == expected.keys(), (found.keys(), expected.keys())
    for name, value in found.items():
        reference = expected[name].numpy()
        assert value.dtype == reference.dtype, (name, value.dtype)
        assert value.shape == reference.shape, (name, value.shape)
        if value.dtype == np.float32:
            np.testing.assert_allclose(
                value, reference, rtol=1e-4, atol=1e-4, err_msg=name
            )
        else:
            assert value.tolist() == reference.tolist(), (name, value)


def _assert_refused(
    code: str, call: Callable[..., object], *args: str, **inputs: np.ndarray
) -> None:
    try:
        answer = call(*args, **inputs)
    except InputError as error:
        assert code in str(error), error
    else:
        raise AssertionError(f"{code} was expected. Received: {answer}")


def main() -> None:
    """Runs the checks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="NAME/VERSION")
    parser.add_argument("--address", help="of a server that runs already")
    options = parser.parse_args()
    path = options.model.resolve()
    with contextlib.ExitStack() as stack:
        address = options.address or stack.enter_context(serving(path))
        model = f"{path.parent.name}/{path.name}"
        client = open_translator(f"grpc://{address}/{model}")
        for line in check(client, path):
            print(line, flush=True)
    print("TensorFlow Serving answers as the SavedModel does.")


if __name__ == "__main__":
    main()
