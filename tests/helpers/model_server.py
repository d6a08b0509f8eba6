"""A stand-in for TensorFlow Serving, which tests and benchmarks start.

Usage: python model_server.py NAME/VERSION [NAME/VERSION ...] PORT_FILE

Serves SavedModels over gRPC with the official interfaces PredictionService
(Predict, GetModelMetadata) and ModelService (GetModelStatus), and with the
status codes of TensorFlow Serving. Models are run as Serving runs them: by a
TensorFlow 1 session, without XLA, with the SentencePiece operations of
tensorflow-text and nothing else. It writes its port to PORT_FILE, atomically,
when it can be reached, and ends when its standard input is closed, so that no
process outlives the one that started it.
"""

import concurrent.futures
import contextlib
import ctypes
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_MAX_THREADS = 16


class ModelServer(NamedTuple):
    """A running server."""

    address: str
    process: subprocess.Popen


@contextlib.contextmanager
def serve(*models: Path, **environment: str) -> Iterator[ModelServer]:
    """Starts the server in a process of its own, and ends it.

    Args:
        *models: The models, each a folder `NAME/VERSION`.
        **environment: Further environment variables.
    """
    with tempfile.TemporaryDirectory() as folder:
        port_file, log = Path(folder, "port"), Path(folder, "log")
        with log.open("w") as stderr:
            process = subprocess.Popen(
                [sys.executable, __file__, *map(str, models), str(port_file)],
                stdin=subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, **environment},
            )
        try:
            deadline = time.monotonic() + 120
            while not port_file.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(
                        f"It did not start:\n{log.read_text()[-4000:]}"
                    )
                time.sleep(0.02)
            address = f"127.0.0.1:{port_file.read_text()}"
            yield ModelServer(address, process)
        finally:
            process.stdin.close()
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()


def main(*models: str, port_file: str) -> None:
    """Serves until the standard input is closed."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    import grpc
    import tensorflow as tf
    from google.protobuf.any_pb2 import Any
    from tensorflow.core.protobuf import config_pb2
    from tensorflow_serving.apis import (
        get_model_metadata_pb2,
        get_model_status_pb2,
        model_service_pb2_grpc,
        predict_pb2,
        prediction_service_pb2_grpc,
    )

    class Failure(Exception):
        """What a request is answered with: a code's name and a message."""

    class Model:
        """A SavedModel in a session."""

        def __init__(self, path: str) -> None:
            self.session = tf.compat.v1.Session(graph=tf.Graph())
            with self.session.graph.as_default():
                meta_graph = tf.compat.v1.saved_model.load(
                    self.session, ["serve"], path
                )
            self.signatures = {
                name: signature
                for name, signature in meta_graph.signature_def.items()
                if signature.method_name  # not the one that initializes
            }
            self.calls = {
                name: self._callable(signature)
                for name, signature in self.signatures.items()
            }

        def _callable(self, signature):
            options = config_pb2.CallableOptions()
            for _, tensor in sorted(signature.inputs.items()):
                options.feed.append(tensor.name)
            for _, tensor in sorted(signature.outputs.items()):
                options.fetch.append(tensor.name)
            # The public methods check shapes and convert types in Python,
            # which Serving leaves to the graph.
            return self.session._make_callable_from_options(options)

        def predict(self, name: str, protos: dict) -> dict:
            if name not in self.signatures:
                raise Failure(
                    "FAILED_PRECONDITION",
                    f'Serving signature key "{name}" not found.',
                )
            signature = self.signatures[name]
            if set(protos) != set(signature.inputs):
                raise Failure(
                    "INVALID_ARGUMENT",
                    f"input size does not match signature: {sorted(protos)} "
                    f"!= {sorted(signature.inputs)}",
                )
            inputs = [tf.make_ndarray(protos[name]) for name in sorted(protos)]
            outputs = self.calls[name](*inputs)
            return dict(zip(sorted(signature.outputs), outputs, strict=True))

    loaded: dict[str, dict[int, Model]] = {}

    def find(spec) -> tuple[int, Model]:
        versions = loaded.get(spec.name, {})
        version = (
            spec.version.value
            if spec.HasField("version")
            else max(versions, default=0)
        )
        if version not in versions:
            wanted = (
                f"Specific({spec.name}, {version})"
                if spec.HasField("version")
                else f"Latest({spec.name})"
            )
            raise Failure(
                "NOT_FOUND", f"Servable not found for request: {wanted}"
            )
        return version, versions[version]

    def answers(method):
        """Makes a method of a service answer failures with status codes."""

        def answer(self, request, context):
            try:
                return method(self, request)
            except Failure as failure:
                code, message = failure.args
                code = grpc.StatusCode[code]
            except tf.errors.OpError as error:
                message = error.message
                code = next(
                    code
                    for code in grpc.StatusCode
                    if code.value[0] == error.error_code
                )
            context.abort(code, message)

        return answer

    class PredictionService(
        prediction_service_pb2_grpc.PredictionServiceServicer
    ):
        @answers
        def Predict(self, request):
            version, model = find(request.model_spec)
            name = request.model_spec.signature_name or "serving_default"
            outputs = model.predict(name, request.inputs)
            response = predict_pb2.PredictResponse()
            response.model_spec.CopyFrom(request.model_spec)
            response.model_spec.signature_name = name
            response.model_spec.version.value = version
            for name, value in outputs.items():
                response.outputs[name].CopyFrom(tf.make_tensor_proto(value))
            return response

        @answers
        def GetModelMetadata(self, request):
            version, model = find(request.model_spec)
            signatures = get_model_metadata_pb2.SignatureDefMap()
            for name, signature in model.signatures.items():
                signatures.signature_def[name].CopyFrom(signature)
            packed = Any()
            packed.Pack(signatures)
            response = get_model_metadata_pb2.GetModelMetadataResponse()
            response.model_spec.name = request.model_spec.name
            response.model_spec.version.value = version
            response.metadata["signature_def"].CopyFrom(packed)
            return response

    class ModelService(model_service_pb2_grpc.ModelServiceServicer):
        @answers
        def GetModelStatus(self, request):
            version, _ = find(request.model_spec)
            response = get_model_status_pb2.GetModelStatusResponse()
            response.model_version_status.add(
                version=version,
                state=get_model_status_pb2.ModelVersionStatus.AVAILABLE,
            )
            return response

    _disable_xla()
    _load_sentencepiece(tf)
    for path in map(Path, models):
        versions = loaded.setdefault(path.parent.name, {})
        versions[int(path.name)] = Model(str(path))
    server = grpc.server(
        concurrent.futures.ThreadPoolExecutor(_MAX_THREADS),
        options=[
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", -1),
        ],
    )
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        PredictionService(), server
    )
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(
        ModelService(), server
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    partial = Path(f"{port_file}.partial")
    partial.write_text(str(port))
    partial.replace(port_file)
    sys.stdin.buffer.read()
    # Without waiting for requests that are being answered.
    os._exit(0)


def _disable_xla() -> None:
    """Does what TensorFlow Serving does at its start."""
    folder = Path(importlib.util.find_spec("tensorflow").origin).parent
    (library,) = folder.glob("libtensorflow_cc.*2*")
    ctypes.CDLL(str(library))._ZN10tensorflow21DisableXlaCompilationEv()


def _load_sentencepiece(tf) -> None:
    folder = Path(importlib.util.find_spec("tensorflow_text").origin).parent
    tf.load_op_library(
        str(folder / "python" / "ops" / "_sentencepiece_tokenizer.so")
    )


if __name__ == "__main__":
    *paths, last = sys.argv[1:]
    main(*paths, port_file=last)
