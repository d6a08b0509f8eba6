"""The web page to try a model, over HTTP and in a browser."""

import concurrent.futures
import contextlib
import json
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

import keras_transformer as kt
from keras_transformer import web

PREDICT = "/v1/models/demo:predict"


@contextlib.contextmanager
def served(translator):
    """Yields the address of a server in a thread."""
    import uvicorn

    app = web.make_app(translator, "demo", max_characters=100)
    config = uvicorn.Config(app, port=0, log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    (listening,) = server.servers[0].sockets
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def several(translator):
    return kt.Translator(
        translator.model, translator.tokenizer, num_translations=3
    )


@pytest.fixture(scope="module")
def address(several):
    with served(several) as address:
        yield address


def fetch(url, body=None):
    """Returns the status and the text of an answer."""
    headers = {"Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def predict(address, body):
    status, text = fetch(address + PREDICT, body)
    return status, json.loads(text)


@pytest.mark.parametrize("texts", [["dog", "cat"], [{"text": "dog"}], []])
def test_rows_are_those_of_the_translator(address, several, texts):
    status, found = predict(address, {"instances": texts})
    plain = [one["text"] if isinstance(one, dict) else one for one in texts]
    expected = several.translate(plain)
    assert status == 200
    assert [one["translations"] for one in found["predictions"]] == [
        one.texts for one in expected
    ]
    for ours, theirs in zip(found["predictions"], expected, strict=True):
        assert ours["scores"] == pytest.approx(theirs.scores, abs=1e-5)
        assert ours["source_truncated"] is theirs.source_truncated


@pytest.mark.parametrize("inputs", [["dog", "cat"], {"text": ["dog", "cat"]}])
def test_columns(address, several, inputs):
    body = {"signature_name": "serving_default", "inputs": inputs}
    status, found = predict(address, body)
    expected = [one.texts for one in several.translate(["dog", "cat"])]
    assert (status, found["outputs"]["translations"]) == (200, expected)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "either instances or inputs. Received: nothing"),
        ({"instances": [], "inputs": []}, "either instances or inputs"),
        ({"instances": "dog"}, "must be a list"),
        ({"inputs": {"other": ["dog"]}}, "must be a list"),
        ({"instances": [1]}, "must be a string. Received: 1"),
        ({"instances": [{"b64": "ZG9n"}]}, "must be a string"),
        ({"instances": ["ok", "x" * 101]}, "101 characters at index 1"),
        ({"instances": ["x"] * 33}, "32 texts. Received: 33"),
        ({"signature_name": "greedy", "instances": []}, "serving_default"),
    ],
)
def test_bad_requests_get_a_message(address, body, message):
    status, found = predict(address, body)
    assert status == 400
    assert message in found["error"]


def test_large_bodies_are_not_read(address):
    status, found = predict(address, {"instances": ["x" * 50_000]})
    assert status == 413 and "bytes" in found["error"]


def test_bodies_that_are_not_json(address):
    request = urllib.request.Request(address + PREDICT, b"{", method="POST")
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request)
    assert error.value.code == 422


def test_status(address):
    status, text = fetch(address + "/v1/models/demo")
    (found,) = json.loads(text)["model_version_status"]
    assert (status, found["state"]) == (200, "AVAILABLE")


def test_pages_of_a_text(address, several):
    text = urllib.parse.quote("dog & <b>")
    status, page = fetch(f"{address}/trace?text={text}")
    assert status == 200 and '"source": "dog & \\u003cb>"' in page
    second = several.translate("dog").texts[1]
    status, page = fetch(f"{address}/attention?text=dog&hypothesis=1")
    assert status == 200 and f'"target": {json.dumps(second)}' in page
    for path in ("trace?text=", "attention?text=dog&hypothesis=3"):
        status, found = fetch(f"{address}/{path}")
        assert status == 400 and "Received: " in json.loads(found)["error"]


def test_requests_do_not_block_each_other(several):
    """One that takes long is overtaken."""
    waiting = threading.Event()

    class Slow(type(several)):
        def translate(self, texts, *arguments):
            if texts == ["slow"]:
                assert waiting.wait(20)
            return several.translate(texts, *arguments)

    slow = Slow(several.model, several.tokenizer, num_translations=3)
    with served(slow) as address, concurrent.futures.ThreadPoolExecutor() as p:
        first = p.submit(predict, address, {"instances": ["slow"]})
        assert predict(address, {"instances": ["dog"]})[0] == 200
        assert not first.done()
        waiting.set()
        assert first.result()[0] == 200


@pytest.mark.slow
def test_200_requests_in_parallel(address, several, pairs):
    texts = [list(pairs)[i % len(pairs)] for i in range(200)]
    expected = [one.texts for one in several.translate(texts)]
    with concurrent.futures.ThreadPoolExecutor(200) as pool:
        bodies = [{"instances": [text]} for text in texts]
        answers = list(pool.map(lambda body: predict(address, body), bodies))
    found = [one["predictions"][0]["translations"] for _, one in answers]
    assert found == expected


@pytest.mark.slow
def test_in_a_browser(address, several):
    from browser import open_address

    with open_address(address) as page:
        page.get_by_label("Text").fill("dog")
        page.get_by_role("button", name="Run").click()
        page.wait_for_selector("#outputs li")
        items = page.locator("#outputs li").all_inner_texts()
        expected = several.translate("dog")
        assert len(items) == 3
        for item, text in zip(items, expected.texts, strict=True):
            assert item.startswith(text)
        with page.expect_popup() as popup:
            page.get_by_text("How it was found").click()
        assert popup.value.inner_text("#source") == "Source: dog"
        with page.expect_popup() as popup:
            page.locator("#outputs a").nth(1).click()
        found = popup.value.inner_text("#target")
        assert found == f"Output: {expected.texts[1]}"
        # By keyboard, and an empty text.
        page.get_by_label("Text").fill("")
        page.keyboard.press("Enter")
        page.wait_for_function(
            "!document.querySelector('form button').disabled"
        )


def test_without_fastapi_the_extra_is_named(several, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    with pytest.raises(kt.InputError, match=r"keras-transformer-nmt\[web\]"):
        web.make_app(several, "demo", 100)


def test_a_port_in_use_is_refused(several, address):
    port = int(address.rpartition(":")[2])
    with pytest.raises(kt.InputError, match=f"port {port}. Choose another"):
        web.serve(several, "demo", "127.0.0.1", port, 100)
