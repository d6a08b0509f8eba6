"""The REST API of TensorFlow Serving, over HTTP."""

import http.client
import json
import logging
import socket
import time
import urllib.request

import pytest
from rest_signatures import SIGNATURES
from web_server import PREDICT, error_of, fetch, predict, served


@pytest.fixture(scope="module")
def address(several):
    with served(several, SIGNATURES) as address:
        yield address


@pytest.mark.parametrize(
    "texts",
    [["dog", "cat"], [{"text": "dog"}]],
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
@pytest.mark.parametrize("name", ["serving_default", ""])
def test_columns(address, several, inputs, name):
    body = {"signature_name": name, "inputs": inputs}
    status, found = predict(address, body)
    expected = [one.texts for one in several.translate(["dog", "cat"])]
    assert (status, found["outputs"]["translations"]) == (200, expected)


def test_no_texts(address):
    inputs = {"text": [], "prefix": []}
    body = {"signature_name": "translate_prefix", "inputs": inputs}
    names = ("translations", "scores", "source_truncated", "at_length_limit")
    expected = {"outputs": {name: [] for name in names}}
    assert predict(address, body) == (200, expected)


def test_a_bad_request_gets_a_message(address):
    status, answer = predict(address, {"instances": [1]})
    error = "text must be of type string. Received: 1"
    assert (status, answer) == (400, {"error": error})


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


def test_status(address):
    status, text = fetch(f"{address}/v1/models/demo")
    (found,) = json.loads(text)["model_version_status"]
    assert (status, found["state"], found["version"]) == (200, "AVAILABLE", "1")


@pytest.mark.parametrize("path", ["other", "demo/versions/1", "demo/metadata"])
def test_what_is_not_served(address, path):
    status, error = error_of(f"{address}/v1/models/{path}")
    assert status == 404 and "/attention and /v1/models/demo, and" in error


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
        assert '"has_attention": false' in fetch(address)[1]
