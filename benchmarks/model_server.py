"""A stand-in for TensorFlow Serving, which tests and benchmarks start.

python benchmarks/model_server.py NAME/VERSION PORT_FILE

Serves a SavedModel over gRPC with the official PredictionService (Predict,
GetModelMetadata) and the status codes of TensorFlow Serving. The model runs as
in Serving: in a TensorFlow 1 session, without XLA, with tensorflow-text's
SentencePiece operations only. When it can be reached, the server writes its
port to PORT_FILE. It ends when its standard input is closed, so that it never
outlives the process that started it.
"""

import argparse
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


class ModelServer(NamedTuple):
    """A running server."""

    address: str
    process: subprocess.Popen


@contextlib.contextmanager
def serve(model: Path, **environment: str) -> Iterator[ModelServer]:
    """Serves a model `NAME/VERSION` in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        port_file = Path(folder, "port")
        process = subprocess.Popen(
            [sys.executable, __file__, str(model), str(port_file)],
            stdin=subprocess.PIPE,
            env={**os.environ, **environment},
        )
        try:
            deadline = time.monotonic() + 120
            while not port_file.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("The server did not start.")
                time.sleep(0.02)
            yield ModelServer(f"127.0.0.1:{port_file.read_text()}", process)
        finally:
            process.stdin.close()
            process.wait(timeout=60)


def main(path: Path, port_file: Path) -> None:
    """Serves until the standard input is closed."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    import grpc
    import tensorflow as tf
    from tensorflow.core.protobuf import config_pb2
    from tensorflow_serving.apis import (
        get_model_metadata_pb2,
        predict_pb2,
        prediction_service_pb2_grpc,
    )

    tensorflow = _folder("tensorflow")
    (library,) = tensorflow.glob("libtensorflow_cc.*2*")
    ctypes.CDLL(str(library))._ZN10tensorflow21DisableXlaCompilationEv()
    ops = _folder("tensorflow_text") / "python" / "ops"
    tf.load_op_library(str(ops / "_sentencepiece_tokenizer.so"))
    session = tf.compat.v1.Session(graph=tf.Graph())
    with session.graph.as_default():
        load = tf.compat.v1.saved_model.load
        meta_graph = load(session, ["serve"], str(path))
    signatures = {
        name: signature
        for name, signature in meta_graph.signature_def.items()
        if signature.method_name  # not the one that initializes
    }

    def make_call(signature):
        options = config_pb2.CallableOptions()
        for _, tensor in sorted(signature.inputs.items()):
            options.feed.append(tensor.name)
        for _, tensor in sorted(signature.outputs.items()):
            options.fetch.append(tensor.name)
        # The public methods check shapes and convert types in Python, which
        # Serving leaves to the graph.
        return session._make_callable_from_options(options)

    calls = {name: make_call(x) for name, x in signatures.items()}

    def check_model(spec, context):
        versions = (0, int(path.name))  # 0: not given
        if spec.name != path.parent.name or spec.version.value not in versions:
            context.abort(grpc.StatusCode.NOT_FOUND, "Servable not found")

    class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request, context):
            check_model(request.model_spec, context)
            name, inputs = request.model_spec.signature_name, request.inputs
            signature = signatures[name]
            if set(inputs) != set(signature.inputs):
                message = "input size does not match signature"
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, message)
            try:
                outputs = calls[name](
                    *(tf.make_ndarray(inputs[x]) for x in sorted(inputs))
                )
            except tf.errors.OpError as error:
                codes = {code.value[0]: code for code in grpc.StatusCode}
                context.abort(codes[error.error_code], error.message)
            response = predict_pb2.PredictResponse()
            for name, value in zip(
                sorted(signature.outputs), outputs, strict=True
            ):
                response.outputs[name].CopyFrom(tf.make_tensor_proto(value))
            return response

        def GetModelMetadata(self, request, context):
            check_model(request.model_spec, context)
            described = get_model_metadata_pb2.SignatureDefMap()
            for name, signature in signatures.items():
                described.signature_def[name].CopyFrom(signature)
            response = get_model_metadata_pb2.GetModelMetadataResponse()
            response.metadata["signature_def"].Pack(described)
            return response

    pool = concurrent.futures.ThreadPoolExecutor(16)
    names = ("send", "receive")
    unlimited = [(f"grpc.max_{name}_message_length", -1) for name in names]
    server = grpc.server(pool, options=unlimited)
    add = prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server
    add(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    partial = Path(f"{port_file}.partial")
    partial.write_text(str(port))
    partial.replace(port_file)
    sys.stdin.buffer.read()
    # Without waiting for requests that are being answered.
    os._exit(0)


def _folder(package: str) -> Path:
    return Path(importlib.util.find_spec(package).origin).parent


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="NAME/VERSION")
    parser.add_argument("port_file", type=Path)
    options = parser.parse_args()
    main(options.model, options.port_file)
