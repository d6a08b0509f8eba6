"""The client of TensorFlow Serving, with a fake server."""

import concurrent.futures
import contextlib
import threading
import time

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from keras_transformer.inference import served as module
from keras_transformer.inference.served import connect
from keras_transformer.support.errors import InputError


class FakeService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers each text with itself in upper case, after some failures."""

    def __init__(self):
        self.requests = []
        self.failures = []  # codes of the next answers
        self.signatures = ["serving_default", "translate_prefix", "score"]
        self.seconds = 0.0
        self.lock = threading.Lock()

    def Predict(self, request, context):
        with self.lock:
            self.requests.append(request)
            code = self.failures.pop(0) if self.failures else None
        if code:
            context.abort(grpc.StatusCode[code], "first\nsecond")
        time.sleep(self.seconds)
        inputs = {k: tf.make_ndarray(x) for k, x in request.inputs.items()}
        texts = inputs["text"]
        lengths = np.array([len(text) for text in texts], np.int32)
        outputs = {
            "translations": np.array([[x.upper()] for x in texts], object),
            "scores": -lengths[:, None].astype("float32"),
            "source_truncated": lengths > 20,
            "at_length_limit": lengths > 10,
        }
        response = predict_pb2.PredictResponse()
        for name, value in outputs.items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(value))
        return response

    def GetModelMetadata(self, request, context):
        assert list(request.metadata_field) == ["signature_def"]
        signatures = get_model_metadata_pb2.SignatureDefMap()
        for name in self.signatures:
            signature = signatures.signature_def[name]
            string = tf.string.as_datatype_enum
            signature.inputs["text"].dtype = string
            output = signature.outputs["translations"]
            output.dtype = string
            for size in (-1, 1):
                output.tensor_shape.dim.add().size = size
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.metadata["signature_def"].Pack(signatures)
        return response


@contextlib.contextmanager
def served(service, address):
    pool = concurrent.futures.ThreadPoolExecutor(8)
    options = [("grpc.max_receive_message_length", -1)]
    server = grpc.server(pool, options=options)
    add = prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server
    add(service, server)
    port = server.add_insecure_port(address)
    server.start()
    yield port
    server.stop(0).wait()
    pool.shutdown()


@pytest.fixture
def service():
    return FakeService()


@pytest.fixture
def fake(service):
    """Makes clients of the fake server."""
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(served(service, "127.0.0.1:0"))
        yield lambda: connect(f"grpc://127.0.0.1:{port}/en-de")


def test_requests(fake, service):
    texts = ["x" * (i % 4) for i in range(16)]
    client = fake()
    client.max_batch_size = 4
    found = client.translate(texts)
    assert [t.texts[0] for t in found] == [text.upper() for text in texts]
    batches = [
        [len(text) for text in tf.make_ndarray(request.inputs["text"])]
        for request in service.requests
    ]
    assert sorted(batches) == [[length] * 4 for length in range(4)]
    names = {x.model_spec.signature_name for x in service.requests}
    assert names == {"serving_default"}


@pytest.fixture
def short_waits(monkeypatch):
    """The waits between retries are a hundredth."""
    options = dict(module._OPTIONS)
    config = options["grpc.service_config"]
    assert config.count('"0.2s"') == 1
    options["grpc.service_config"] = config.replace('"0.2s"', '"0.002s"')
    monkeypatch.setattr(module, "_OPTIONS", tuple(options.items()))


def test_unavailable_is_retried(fake, service, short_waits):
    service.failures = ["UNAVAILABLE"] * 4
    assert fake().translate("a").texts[0] == "A"
    assert len(service.requests) == 5


def test_nobody_answers(short_waits):
    with pytest.raises(InputError, match=r"127.0.0.1:1/en-de.*UNAVAILABLE"):
        connect("grpc://127.0.0.1:1/en-de")


@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "INTERNAL"])
def test_other_errors_are_not_retried(fake, service, code):
    service.failures = [code]
    with pytest.raises(InputError, match=f"/en-de.*{code}, first$"):
        fake().translate("a")
    assert len(service.requests) == 1


def test_timeout(fake, service, monkeypatch):
    client = fake()
    service.seconds = 0.3
    monkeypatch.setattr(module, "_SECONDS", 0.05)
    with pytest.raises(InputError, match="DEADLINE_EXCEEDED"):
        client.translate("a")


def test_large_messages(fake):
    text = "x" * 5_000_000
    assert fake().translate(text).texts[0] == text.upper()


@pytest.mark.parametrize(
    "address", ["grpc://localhost:8500", "grpc:///en-de", "grpc://a/b/c"]
)
def test_invalid_addresses(address):
    with pytest.raises(InputError, match=f"Received: {address}"):
        connect(address)


def test_a_model_of_a_different_program(fake, service):
    service.signatures = ["other"]
    with pytest.raises(InputError, match="/en-de"):
        fake()


@pytest.fixture
def short_waits(monkeypatch):
    """The waits between retries are a hundredth."""
    options = dict(module._OPTIONS)
    config = options["grpc.service_config"]
    assert config.count('"0.2s"') == 1
    options["grpc.service_config"] = config.replace('"0.2s"', '"0.002s"')
    monkeypatch.setattr(module, "_OPTIONS", tuple(options.items()))


def test_unavailable_is_retried(fake, service, short_waits):
    service.failures = ["UNAVAILABLE"] * 4
    assert fake().translate("a").texts[0] == "A"
    assert len(service.requests) == 5


def test_nobody_answers(short_waits):
    with pytest.raises(InputError, match=r"127.0.0.1:1/en-de.*UNAVAILABLE"):
        connect("grpc://127.0.0.1:1/en-de")


@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "INTERNAL"])
def test_other_errors_are_not_retried(fake, service, code):
    service.failures = [code]
    with pytest.raises(InputError, match=f"/en-de.*{code}, first$"):
        fake().translate("a")
    assert len(service.requests) == 1


def test_timeout(fake, service, monkeypatch):
    client = fake()
    service.seconds = 0.3
    monkeypatch.setattr(module, "_SECONDS", 0.05)
    with pytest.raises(InputError, match="DEADLINE_EXCEEDED"):
        client.translate("a")


def test_large_messages(fake):
    text = "x" * 5_000_000
    assert fake().translate(text).texts[0] == text.upper()


@pytest.mark.parametrize(
    "address", ["grpc://localhost:8500", "grpc:///en-de", "grpc://a/b/c"]
)
def test_invalid_addresses(address):
    with pytest.raises(InputError, match=f"Received: {address}"):
        connect(address)
