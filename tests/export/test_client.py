"""The client with a fake server: batches, retries and messages."""

import concurrent.futures
import contextlib
import pickle
import threading
import time
import types

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from keras_transformer.export import client as client_module
from keras_transformer.export.client import Client, ServingError
from keras_transformer.inference.records import Score
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
            self.metadata = context.invocation_metadata()
            code = self.failures.pop(0) if self.failures else None
        if code:
            context.abort(grpc.StatusCode[code], "first\nsecond\nthird\nno")
        time.sleep(self.seconds)
        inputs = {k: tf.make_ndarray(x) for k, x in request.inputs.items()}
        texts = inputs["text"]
        rows = [[text.upper(), b"\xff"] for text in texts]
        lengths = np.array([len(text) for text in texts], np.int32)
        outputs = {
            "translations": np.array(rows, object).reshape(-1, 2),
            "scores": np.stack([-lengths, -2.0 * lengths], 1),
            "source_truncated": lengths > 20,
            "at_length_limit": lengths > 10,
        }
        if "translation" in inputs:
            outputs |= {
                "scores": -0.5 * lengths,
                "log_probs": -1.0 * lengths,
                "perplexities": 2.0 * lengths,
                "lengths": lengths + 1,
                "translation_truncated": [
                    len(text) > 20 for text in inputs["translation"]
                ],
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
            for size in (-1, 2):
                output.tensor_shape.dim.add().size = size
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.metadata["signature_def"].Pack(signatures)
        return response


@contextlib.contextmanager
def served(service, address, credentials):
    pool = concurrent.futures.ThreadPoolExecutor(8)
    options = [("grpc.max_receive_message_length", -1)]
    server = grpc.server(pool, options=options)
    add = prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server
    add(service, server)
    if credentials:
        port = server.add_secure_port(address, credentials)
    else:
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
        port = stack.enter_context(served(service, "127.0.0.1:0", None))
        yield lambda **options: stack.enter_context(
            Client("en-de", f"127.0.0.1:{port}", **options)
        )


@pytest.fixture
def waits(monkeypatch):
    """The seconds that the client waited, which take no time."""
    waited = []
    sleep = time.sleep
    fake_time = types.SimpleNamespace(
        monotonic=time.monotonic,
        sleep=lambda seconds: waited.append(seconds) or sleep(0.001),
    )
    monkeypatch.setattr(client_module, "time", fake_time)
    return waited


def test_batches_of_similar_length(fake, service):
    texts = ["x" * (i % 10) for i in range(40)]
    found = fake(batch_size=4).translate(texts)
    assert [t.texts[0] for t in found] == [text.upper() for text in texts]
    assert [t.scores for t in found] == [
        [-(i % 10), -2 * (i % 10)] for i in range(40)
    ]
    batches = [
        [len(text) for text in tf.make_ndarray(request.inputs["text"])]
        for request in service.requests
    ]
    assert sorted(batches) == [[length] * 4 for length in range(10)]
    assert {r.model_spec.signature_name for r in service.requests} == {
        "serving_default"
    }
    # Few texts are divided among the workers.
    service.requests.clear()
    fake(batch_size=32, workers=2).translate(["a", "b", "c"])
    sizes = [len(r.inputs["text"].string_val) for r in service.requests]
    assert sorted(sizes) == [1, 2]


def test_texts_are_sent_and_read_exactly(fake):
    text = "ab\0 c\0"
    found = fake().translate([text, "x" * 11, "x" * 21])
    assert found[0].texts == ["AB\0 C\0", "\ufffd"]
    assert [t[2:] for t in found] == [
        (False, False, False),
        (False, True, False),
        (True, True, False),
    ]
    assert found[1].source_truncated is False


def test_prefixes(fake, service):
    found = fake(workers=1).translate(["a", "bbb"], prefixes=["A", ""])
    assert [t.texts[0] for t in found] == ["A", "BBB"]
    (request,) = service.requests
    assert request.model_spec.signature_name == "translate_prefix"
    assert tf.make_ndarray(request.inputs["text"]).tolist() == [b"bbb", b"a"]
    assert tf.make_ndarray(request.inputs["prefix"]).tolist() == [b"", b"A"]


def test_scores(fake):
    found = fake().score(["a", "bb"], ["A", "B"])
    assert found == [Score(-0.5, -1.0, 2.0, 2), Score(-1.0, -2.0, 4.0, 3)]
    assert fake().score("a", "A") == found[0]
    with pytest.raises(InputError, match="a longer target at index 1"):
        fake().score(["a", "b"], ["A", "x" * 21])


def test_a_document(fake):
    document = fake().translate_document("来了。你？ 好！\n1.")
    assert document.text == "来了。你？ 好！\n1."
    assert list(document.translations) == ["来了。", "你？", "好！"]


def test_what_the_server_says_of_the_model(fake):
    client = fake()
    assert client.num_translations == 2
    assert client.languages == (None, None) and not client.can("attention")
    assert client.capabilities == {"prefixes", "score", "perplexity"}
    outputs = client.own_signatures["serving_default"].outputs()
    assert outputs == {"translations": ("string", (None, 2))}
    arrays = {"text": np.array([b"a"], object)}
    found = client.own_signatures["serving_default"].call(arrays)
    assert found["translations"].tolist() == [[b"A", b"\xff"]]


def test_what_the_served_model_cannot(fake, service):
    service.signatures = ["serving_default"]
    with pytest.raises(InputError, match="export the signature score. Receiv"):
        fake().score("a", "A")
    with pytest.raises(InputError, match="signature translate_prefix. Receiv"):
        fake().translate("a", prefixes="A")
    assert fake().translate("a").texts[0] == "A" and not service.requests[1:]
    service.signatures = ["other"]
    with pytest.raises(InputError, match="the model 'en-de' at .* must have"):
        fake().num_translations  # noqa: B018


def test_inputs_that_are_no_tensor(fake, service):
    with pytest.raises(InputError, match="text must be what .* Received: ..a"):
        fake().predict("greedy", text=["a", 1])
    assert not service.requests


def test_unavailable_is_retried(fake, service, waits):
    service.failures = ["UNAVAILABLE"] * 5
    assert fake().translate("a").texts[0] == "A"
    assert len(service.requests) == 6
    for wait, longest in zip(waits, (0.1, 0.2, 0.4, 0.8, 1.6), strict=True):
        assert longest / 2 <= wait <= longest
    # At random.
    assert len({wait / 2**i for i, wait in enumerate(waits)}) == 5


def test_retries_end(fake, service, waits):
    service.failures = ["UNAVAILABLE"] * 9
    with pytest.raises(ServingError, match="did not in 3 attempts") as error:
        fake(retries=2).translate("a")
    assert error.value.code is grpc.StatusCode.UNAVAILABLE
    assert len(service.requests) == 3
    assert "(8500, while 8501 is for REST)" in str(error.value)
    assert "Received: UNAVAILABLE, first" in str(error.value)


def test_retries_end_with_the_timeout(fake, service, waits):
    service.failures = ["UNAVAILABLE"] * 99
    with pytest.raises(ServingError):
        fake(retries=99, timeout=1.59).translate("a")
    # 0.1, 0.2, 0.4 and 0.8 seconds or half of each; the fifth is 0.8 to 1.6.
    assert 4 <= len(waits) <= 5


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("INVALID_ARGUMENT", "those of the signature 'serving_default'"),
        ("RESOURCE_EXHAUSTED", "Set a smaller batch_size"),
        ("INTERNAL", "The server must succeed"),
        ("UNAUTHENTICATED", "must know who asks. Pass `credentials`"),
        ("PERMISSION_DENIED", "model 'en-de'. Pass `credentials`"),
    ],
)
def test_other_errors_are_not_retried(fake, service, waits, code, message):
    service.failures = [code]
    with pytest.raises(ServingError, match=message) as error:
        fake().translate("a")
    assert str(error.value).endswith(f"{code}, first\nsecond\nthird")
    assert error.value.code is grpc.StatusCode[code]
    assert len(service.requests) == 1
    assert not waits


def test_any_number_of_retries(fake, service, waits, monkeypatch):
    monkeypatch.setattr(client_module.random, "uniform", lambda *_: 1)
    service.failures = ["UNAVAILABLE"] * 9999
    with pytest.raises(ServingError, match="in 1501 attempts"):
        fake(retries=1500, timeout=1e300).translate("a")
    assert waits[:6] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2]
    assert set(waits[6:]) == {5.0} and len(waits) == 1500


def test_errors_can_be_sent_to_another_process(fake, service):
    service.failures = ["INTERNAL"]
    with pytest.raises(ServingError) as error:
        fake().translate("a")
    found = pickle.loads(pickle.dumps(error.value))
    assert isinstance(found, ServingError)
    assert (str(found), found.code) == (str(error.value), error.value.code)


def test_timeout(fake, service):
    service.seconds = 0.3
    with pytest.raises(ServingError, match="within timeout=0.05 s") as error:
        fake(timeout=0.05).translate("a")
    assert error.value.code is grpc.StatusCode.DEADLINE_EXCEEDED
    for seconds in (5, 1e10, 1e300):
        assert fake(timeout=seconds).translate("a").texts[0] == "A"


def test_after_an_error_nothing_more_is_sent(fake, service):
    service.failures = ["INTERNAL"]
    service.seconds = 0.01
    with pytest.raises(ServingError):
        fake(batch_size=1, workers=2).translate(["a"] * 500)
    assert len(service.requests) < 50


def test_large_messages(fake):
    text = "x" * 5_000_000
    assert fake().translate(text).texts[0] == text.upper()


def test_nobody_answers(waits):
    with Client("en-de", "127.0.0.1:1") as client:
        with pytest.raises(ServingError, match="1:1, .* in 9 attempts"):
            client.translate("a")
    assert len(waits) == 8


def test_credentials(service, tmp_path):
    address = f"unix:{tmp_path}/socket"
    credentials = grpc.composite_channel_credentials(
        grpc.local_channel_credentials(grpc.LocalConnectionType.UDS),
        grpc.access_token_call_credentials("secret"),
    )
    server_credentials = grpc.local_server_credentials(
        grpc.LocalConnectionType.UDS
    )
    with served(service, address, server_credentials):
        with Client("en-de", address, credentials=credentials) as client:
            assert client.translate("a").texts[0] == "A"
    assert ("authorization", "Bearer secret") in service.metadata


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(timeout=0), "timeout must be a positive, finite .* timeout=0"),
        (dict(retries=-1), "retries must be a non-negative .* retries=-1"),
        (dict(batch_size=0), "batch_size must be .* batch_size=0"),
        (dict(workers=1.5), "workers must be .* workers=1.5"),
        (dict(version="1"), "version must be an integer .* version='1'"),
        (dict(version=-1), "version must be an integer from 0 .* version=-1"),
        (dict(version=2**63), "version must be an integer from 0 to"),
        (dict(address=8500), "address must be a non-empty str.* address=8500"),
    ],
)
def test_invalid_arguments(options, message):
    with pytest.raises(InputError, match=message):
        Client("en-de", **options)
