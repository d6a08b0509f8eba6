"""The REST API of TensorFlow Serving, beside the page."""

import http.client
import json
import logging
import math
import socket
import time
import urllib.request

import numpy as np
import pytest
from web_server import PREDICT, error_of, fetch, predict, served

from keras_transformer.inference.signatures import Signature, TensorSpec

TEXTS = TensorSpec("string", (None,))


def add_options(arrays):
    """A signature of several types, as `sample` is."""
    texts, count = arrays["text"], int(arrays["count"])
    found = np.array([[x.decode()] * count for x in texts], object)
    factor = np.full(len(texts), arrays["factor"], np.float32)
    return {"texts": found, "factors": factor, "raw_bytes": texts}


SIGNATURES = {
    "options": Signature(
        {
            "text": TEXTS,
            "count": TensorSpec("int32", ()),
            "factor": TensorSpec("float32", ()),
        },
        lambda: {
            "texts": TensorSpec("string", (None, None)),
            "factors": TensorSpec("float32", (None,)),
            "raw_bytes": TEXTS,
        },
        add_options,
    ),
    "double": Signature(
        {"text": TEXTS},
        lambda: {"texts": TEXTS},
        lambda x: {"t": 2 * x["text"]},
    ),
    "two": Signature(
        {"text": TEXTS, "other": TEXTS},
        lambda: {},
        lambda x: {"joined": x["text"] + x["other"], "y": x["other"]},
    ),
    "total": Signature(
        {"text": TEXTS}, lambda: {}, lambda x: {"n": np.array(len(x["text"]))}
    ),
    "flags": Signature(
        {"flag": TensorSpec("bool", (None,))}, lambda: {}, lambda x: x
    ),
    "infinite": Signature(
        {"text": TEXTS}, lambda: {}, lambda x: {"x": np.array([-math.inf])}
    ),
}


@pytest.fixture(scope="module")
def address(several):
    with served(several, SIGNATURES) as address:
        yield address


@pytest.mark.parametrize(
    "texts",
    [["dog", "cat"], [{"text": "dog"}], [{"b64": "ZG9n"}]],
)
def test_rows_are_those_of_the_translator(address, several, texts):
    status, found = predict(address, {"instances": texts})
    plain = ["dog" if isinstance(one, dict) else one for one in texts]
    expected = several.translate(plain)
    assert status == 200
    assert [one["translations"] for one in found["predictions"]] == [
        one.texts for one in expected
    ]
    for ours, theirs in zip(found["predictions"], expected, strict=True):
        assert ours["scores"] == pytest.approx(theirs.scores, abs=1e-5)
        assert ours["source_truncated"] is theirs.source_truncated


@pytest.mark.parametrize(
    "inputs",
    [
        ["dog", "cat"],
        {"text": ["dog", "cat"]},
        {"text": ["dog", "cat"], "ignored": 1},
    ],
)
@pytest.mark.parametrize(
    ("version", "name"), [("", "serving_default"), ("/versions/1", "")]
)
def test_columns(address, several, inputs, version, name):
    body = {"signature_name": name, "inputs": inputs}
    path = PREDICT.replace(":", f"{version}:")
    status, text = fetch(address + path, body)
    expected = [one.texts for one in several.translate(["dog", "cat"])]
    found = json.loads(text)["outputs"]["translations"]
    assert (status, found) == (200, expected)


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        # A single output has no name.
        ("double", {"instances": ["a", "b"]}, {"predictions": ["aa", "bb"]}),
        ("double", {"inputs": ["a", "b"]}, {"outputs": ["aa", "bb"]}),
        ("total", {"inputs": ["a", "b"]}, {"outputs": 2}),
        ("flags", {"inputs": [True, False]}, {"outputs": [True, False]}),
        (
            "two",
            {"instances": [{"text": "a", "other": {"b64": "Yg=="}}]},
            {"predictions": [{"joined": "ab", "y": "b"}]},
        ),
        (
            "options",
            {"inputs": {"text": ["ä"], "count": 2, "factor": 3}},
            {
                "outputs": {
                    "texts": [["ä", "ä"]],
                    "factors": [3.0],
                    "raw_bytes": [{"b64": "w6Q="}],
                }
            },
        ),
        (
            "translate_prefix",
            {"inputs": {"text": [], "prefix": []}},
            {
                "outputs": {
                    "translations": [],
                    "scores": [],
                    "source_truncated": [],
                    "at_length_limit": [],
                }
            },
        ),
    ],
)
def test_formats(address, name, given, expected):
    found = predict(address, {"signature_name": name, **given})
    assert found == (200, expected)


def test_infinity_is_written_as_tensorflow_serving_does(address):
    body = {"signature_name": "infinite", "instances": ["a"]}
    assert fetch(address + PREDICT, body)[1] == '{"predictions": [-Infinity]}'


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, 'not one of "instances" and "inputs": []'),
        (
            {"instances": [], "inputs": []},
            'not one of "instances" and "inputs"',
        ),
        # As TensorFlow Serving: its tensorflow_serving/util/json_tensor.cc.
        ({"instances": "dog"}, "a list with values. Received: 'dog'"),
        ({"instances": []}, "instances must be a list with values. Received: "),
        ({"instances": ["a", {"text": "b"}]}, "must all be objects with text"),
        ({"instances": [{"text": "a", "x": "b"}]}, "text and nothing else"),
        (
            {"inputs": {"other": ["dog"]}},
            "inputs must have a value for each of",
        ),
        (
            {"instances": [{"x": "a"}]},
            "instances[0] must have a value for each",
        ),
        ({"instances": [1]}, "text must be of type string. Received: 1"),
        ({"instances": [None]}, "text must be of type string. Received: None"),
        ({"inputs": ["a", ["b"]]}, "text must have values of string in lists"),
        ({"inputs": "dog"}, "text must be of rank 1. Received: rank 0"),
        ({"inputs": [["dog"]]}, "text must be of rank 1. Received: rank 2"),
        ({"instances": [{"b64": "?"}]}, 'valid Unicode or {"b64": "..."}. Rec'),
        (
            {"instances": [{"b64": 1}]},
            'valid Unicode or {"b64": "..."}. Receiv',
        ),
        ({"instances": ["\ud800"]}, "text must be valid Unicode or"),
        (
            {"instances": ["ok", "x" * 101]},
            "at most 100 characters. Received: 1",
        ),
        (
            {"inputs": ["x"] * 33},
            "at most 32 texts. Received: 33 values of text",
        ),
        (
            {"signature_name": "x", "instances": []},
            "translate_prefix. Received:",
        ),
        (
            {"signature_name": 1, "instances": []},
            "must be one of options, doub",
        ),
        (
            {"signature_name": "total", "instances": ["a"]},
            'not one per instance. Ask with "inputs"',
        ),
        (
            {
                "signature_name": "options",
                "instances": [{"text": "a", "count": 1, "factor": 1}],
            },
            'count must be of rank 0, which "inputs" can have only. Received',
        ),
        (
            {
                "signature_name": "options",
                "inputs": {"text": ["a"], "count": 1.5, "factor": 1},
            },
            "count must be of type int32. Received: 1.5",
        ),
        (
            {
                "signature_name": "options",
                "inputs": {"text": ["a"], "count": 2**40, "factor": 1},
            },
            "count must have values of int32",
        ),
        (
            {
                "signature_name": "options",
                "inputs": {"text": ["a"], "count": 1, "factor": True},
            },
            "factor must be of type float32. Received: True",
        ),
        (
            {"signature_name": "flags", "inputs": [1]},
            "flag must be of type bool. Received: 1",
        ),
    ],
)
def test_bad_requests_get_a_message(address, body, message):
    status, found = predict(address, body)
    assert status == 400 and list(found) == ["error"]
    assert message in found["error"]
    assert len(found["error"]) < 350


def test_large_bodies_are_not_read(address):
    status, found = predict(address, {"instances": ["x" * 150_000]})
    assert status == 413 and "142,336 bytes" in found["error"]


def test_the_largest_request_is_accepted(address):
    """32 texts of the longest length, each character two escapes."""
    text = "\N{GRINNING FACE}" * 100
    body = {
        "signature_name": "two",
        "instances": [{"text": text, "other": text}] * 32,
    }
    assert len(json.dumps(body)) > 2 * 32 * 100 * 12
    status, found = predict(address, body)
    assert status == 200 and len(found["predictions"]) == 32


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "invalid JSON: "),
        (b"{", "invalid JSON: "),
        (b"\xff", "invalid JSON: "),
        (b"[" * 30_000, "invalid JSON: "),
        (b'["dog"]', "than an object: ['dog']"),
    ],
)
def test_bodies_that_are_no_json_object(address, body, message):
    status, error = error_of(
        urllib.request.Request(address + PREDICT, body, method="POST")
    )
    assert status == 400 and message in error
    assert error.startswith('A request must be {"instances": ["...", ...]} or ')


def test_any_content_type_as_of_tensorflow_serving(address):
    # What `curl -d` sends.
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    body = json.dumps({"instances": ["dog"]}).encode()
    request = urllib.request.Request(address + PREDICT, body, headers)
    with urllib.request.urlopen(request) as answer:
        assert len(json.load(answer)["predictions"]) == 1


def test_a_request_in_chunks(address):
    connection = http.client.HTTPConnection(address.removeprefix("http://"))
    body = iter([b'{"instances": ', b'["dog"]}'])
    connection.request("POST", PREDICT, body, encode_chunked=True)
    assert len(json.load(connection.getresponse())["predictions"]) == 1
    connection.close()


def test_a_client_that_leaves_in_the_middle(address, caplog, monkeypatch):
    logger = logging.getLogger("uvicorn.error")
    monkeypatch.setattr(logger, "handlers", [caplog.handler])
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as leaving:
        head = f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\n"
        leaving.sendall(f"{head}Content-Length: 99\r\n\r\n{{".encode())
        time.sleep(0.2)  # until its body is waited for
    time.sleep(0.2)
    assert predict(address, {"instances": ["dog"]})[0] == 200
    assert not caplog.records


@pytest.mark.parametrize("version", ["", "/versions/1"])
def test_status_and_metadata(address, version):
    status, text = fetch(f"{address}/v1/models/demo{version}")
    (found,) = json.loads(text)["model_version_status"]
    assert (status, found["state"], found["version"]) == (200, "AVAILABLE", "1")
    status, text = fetch(f"{address}/v1/models/demo{version}/metadata")
    found = json.loads(text)
    assert found["model_spec"] == {
        "name": "demo",
        "signature_name": "",
        "version": "1",
    }
    signatures = found["metadata"]["signature_def"]["signature_def"]
    assert set(signatures) == {
        *SIGNATURES,
        "serving_default",
        "translate_prefix",
    }
    assert signatures["options"]["inputs"]["count"] == {
        "dtype": "DT_INT32",
        "tensor_shape": {"dim": [], "unknown_rank": False},
        "name": "options_count:0",
    }
    shape = signatures["serving_default"]["outputs"]["scores"]["tensor_shape"]
    assert [dim["size"] for dim in shape["dim"]] == ["-1", "3"]


@pytest.mark.parametrize(
    "path",
    ["other", "demo/versions/2", "demo/versions/2/metadata", "other/metadata"],
)
def test_what_is_not_served(address, path):
    status, error = error_of(f"{address}/v1/models/{path}")
    assert status == 404 and "/v1/models/demo/versions/1 is" in error


def test_a_saved_model(exported):
    """All of its signatures, with the shapes of its graphs."""
    from keras_transformer.inference.saved_model import SavedModelTranslator

    with served(SavedModelTranslator.open(exported)) as address:
        body = {"instances": ["dog", "cat"]}
        rows = predict(address, body)[1]["predictions"]
        assert [row["translations"][0] for row in rows] == ["Hund", "Katze"]
        body = {"signature_name": "greedy", "inputs": {"text": ["dog"]}}
        assert predict(address, body)[1]["outputs"]["translations"] == ["Hund"]
        body = {"signature_name": "detokenize", "instances": ["d o g"]}
        assert predict(address, body)[1] == {"predictions": ["dog"]}
        metadata = json.loads(fetch(address + "/v1/models/demo/metadata")[1])
        found = metadata["metadata"]["signature_def"]["signature_def"]
        assert set(found) == {"serving_default", "greedy", "detokenize"}
        assert '"has_attention": false' in fetch(address)[1]
