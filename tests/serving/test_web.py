"""The web page to try a model, over HTTP and in a browser."""

import concurrent.futures
import json
import math
import re
import socket
import sys
import threading
import types
import urllib.error
import urllib.parse
import urllib.request

import pytest
from web_server import PREDICT, error_of, fetch, predict, served

import keras_transformer as kt
from keras_transformer.inference.documents import PAGE_SUFFIXES
from keras_transformer.inference.texts import Translation
from keras_transformer.serving import web
from keras_transformer.tasks import TranslationTask


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/trace", 400, "query.text: Field required"),
        (f"/trace?text={'x' * 101}", 400, "at most 100 characters"),
        ("/attention?text=dog&hypothesis=x", 400, "valid integer"),
        ("/attention", 400, "The address must have a text, and may have a num"),
        ("/other", 404, "Received: GET /other"),
        (PREDICT, 405, f"Received: GET {PREDICT}"),
    ],
)
def test_wrong_addresses_get_a_message(address, path, status, message):
    found, error = error_of(address + path)
    assert found == status and message in error


@pytest.mark.parametrize("path", ["/", "/v1/models/demo", "/other"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "site.example:80"},
        # Starlette cannot parse it, and then believes the socket.
        {"Host": "a{b.evil.com"},
        {"Host": "localhost.evil.com"},
        {"Host": "localhost:80@evil.com"},
        {"Host": ""},
        {"Origin": "http://evil.com"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_pages_of_other_sites_are_refused(address, path, headers):
    status, error = error_of(
        urllib.request.Request(address + path, None, headers)
    )
    assert status == 403 and "Received: " in error


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "localhost:9000", "Origin": "http://localhost:9000"},
        {"Host": "LOCALHOST", "Sec-Fetch-Site": "same-origin"},
        {"Host": "[::1]:80", "Sec-Fetch-Site": "none"},
    ],
)
def test_names_of_this_computer(address, headers):
    request = urllib.request.Request(address, None, headers)
    assert urllib.request.urlopen(request).status == 200


def test_pages_of_a_text(address, several):
    text = urllib.parse.quote("dog & <b>")
    status, page = fetch(f"{address}/trace?text={text}")
    assert status == 200 and '"source": "dog & \\u003cb>"' in page
    second = several.translate("dog").texts[1]
    status, page = fetch(f"{address}/attention?text=dog&hypothesis=1")
    assert status == 200 and f'"target": {json.dumps(second)}' in page
    status, page = fetch(f"{address}/trace?text=dog&hypothesis=1")
    assert status == 200 and '"hypothesis": 1' in page
    for path in (
        "trace?text=",
        "trace?text=dog&hypothesis=4",
        "attention?text=dog&hypothesis=3",
    ):
        status, found = fetch(f"{address}/{path}")
        assert status == 400 and "Received: " in json.loads(found)["error"]


def test_a_text_of_sentences_and_lines(address, several):
    text = "\n dog. The red cat sleeps.\n\n  cat"
    status, found = fetch(address + "/translate", {"text": text})
    found = json.loads(found)
    sources = ["dog.", "The red cat sleeps.", "cat"]
    expected = several.translate(sources)
    assert status == 200
    assert [one["source"] for one in found["sentences"]] == sources
    best = iter(one.texts[0] for one in expected)
    assert found["text"] == (f"\n {next(best)} {next(best)}\n\n  {next(best)}")
    for ours, theirs in zip(found["sentences"], expected, strict=True):
        assert ours["translations"] == theirs.texts
        assert ours["scores"] == pytest.approx(theirs.scores, abs=1e-5)
        assert ours["source_truncated"] is theirs.source_truncated


def test_slots_that_the_search_left_empty_are_not_shown():
    def translate(texts):
        found = Translation(("a", ""), (-1.0, -math.inf), False, False)
        return [found for _ in texts]

    fake = types.SimpleNamespace(task=TranslationTask(), translate=translate)
    (found,) = web._sentences(fake, "x")["sentences"]
    assert found["translations"] == ("a",) and found["scores"] == (-1.0,)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "text: Field required"),
        ({"text": 1}, "text: Input should be a valid string"),
        ({"text": "x" * 101}, "text: String should have at most 100 charac"),
        (["x"], "request: Input should be an object"),
    ],
)
def test_texts_that_are_refused(address, body, message):
    status, found = fetch(address + "/translate", body)
    assert status == 400
    expected, problems = json.loads(found)["error"].split("\n", 1)
    assert expected == 'A request must be {"text": "..."}.'
    assert message in problems and "Received: " in problems


def send(address, content, format):
    url = f"{address}/document?format={format}"
    request = urllib.request.Request(url, content.encode(), method="POST")
    with urllib.request.urlopen(request) as answer:
        return answer.read().decode(), answer.headers


def test_documents(address):
    found, headers = send(address, "- dog\n\n\tcat\r\n", "text")
    assert found == "- Hund\n\n\tKatze\r\n"
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert headers["Incomplete-Sentences"] == "0"
    page = "<p class=dog>dog<br>\n <b>cat</b><!-- dog --><pre>dog</pre>"
    found, headers = send(address, page, "html")
    assert found == page.replace(">dog<br", ">Hund<br").replace("cat", "Katze")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    # No browser shows it as a page of this site.
    assert headers["Content-Disposition"] == "attachment"
    assert headers["Content-Security-Policy"] == "sandbox"
    assert send(address, "QX" * 50, "text")[1]["Incomplete-Sentences"] == "1"


@pytest.mark.parametrize("kind", ["html", "plain"])
def test_the_content_type_is_the_default_format(address, kind):
    headers = {"Content-Type": f"text/{kind}; charset=utf-8"}
    content = b"<b class=cat>dog</b>"
    request = urllib.request.Request(f"{address}/document", content, headers)
    with urllib.request.urlopen(request) as answer:
        is_page = answer.read() == b"<b class=cat>Hund</b>"
        assert is_page is (kind == "html")
        assert answer.headers["Content-Type"] == headers["Content-Type"]


def test_the_page_knows_the_files_that_are_pages(address):
    page = fetch(address)[1]
    (accepted,) = re.findall(r'accept="([^"]*)"', page)
    assert set(PAGE_SUFFIXES) < set(accepted.split(","))
    (endings,) = re.findall(r"/\\\.\(([^)]*)\)\$/i\.test", page)
    assert {f".{ending}" for ending in endings.split("|")} == set(PAGE_SUFFIXES)


@pytest.mark.parametrize(
    ("format", "content", "status", "message"),
    [
        ("pdf", b"dog", 400, "or /document?format=html. Received: 'pdf'"),
        ("text", b"\xff", 400, "must be in UTF-8. Received: "),
        ("html", b"x" * 40_001, 413, "at most 40,000 bytes"),
    ],
)
def test_documents_that_are_refused(address, format, content, status, message):
    url = f"{address}/document?format={format}"
    request = urllib.request.Request(url, content, method="POST")
    found, error = error_of(request)
    assert found == status and message in error


@pytest.mark.parametrize(
    ("known", "languages", "example"),
    [
        ((("de", "en"), "Ein Hund."), '["de", "en"]', '"Ein Hund."'),
        ((("eo", None),), '["eo", null]', "null"),
    ],
)
def test_languages_and_an_example(without_model, known, languages, example):
    with served(without_model(*known)) as address:
        page = fetch(address)[1]
    assert f'"languages": {languages}, "example": {example}' in page


def test_a_runtime_has_no_pages_of_a_text(address, runtime):
    body = {"instances": ["dog", "cat"]}
    assert predict(runtime, body) == predict(address, body)
    for server, shown in ((address, "true"), (runtime, "false")):
        page = fetch(server)[1]
        assert f'"has_trace": {shown}, "has_attention": {shown}' in page
    for path in ("trace", "attention"):
        status, found = fetch(f"{runtime}/{path}?text=dog")
        assert status == 404
        assert (
            "answers GET /, /v1/models/demo and /v1/models/demo/meta" in found
        )


def test_requests_do_not_block_each_other(several):
    """One that takes long is overtaken."""
    waiting = threading.Event()

    class Slow(type(several)):
        def translate(self, texts, **arguments):
            if texts == [b"slow"]:
                assert waiting.wait(20)
            return several.translate(texts, **arguments)

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


@pytest.mark.parametrize("package", ["fastapi", "uvicorn"])
def test_without_the_packages_the_extra_is_named(several, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(kt.InputError, match=r"keras-transformer-nmt\[web\]"):
        web.make_app(several, "demo", 100)


@pytest.mark.parametrize("max_characters", [0, -1, "x"])
def test_the_length_of_texts_is_checked(several, max_characters):
    with pytest.raises(kt.InputError, match="must be a positive integer"):
        web.make_app(several, "demo", max_characters)


def test_a_port_in_use_is_refused(address):
    port = int(address.rpartition(":")[2])
    with pytest.raises(kt.InputError, match=f"port {port}. Choose another"):
        web.listen("127.0.0.1", port)


@pytest.mark.parametrize("port", [-1, 70_000])
def test_ports_that_do_not_exist(port):
    with pytest.raises(kt.InputError, match=f"Received: {port}"):
        web.listen("127.0.0.1", port)


@pytest.mark.parametrize("host", ["a..b", "x" * 64, "no.such.invalid"])
def test_names_that_do_not_exist(host):
    with pytest.raises(kt.InputError, match=f"Cannot listen on {host}"):
        web.listen(host, 0)


def test_addresses_of_version_6():
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    with web.listen("::1", 0) as listening:
        assert listening.family == socket.AF_INET6


@pytest.mark.parametrize(
    ("host", "hosts"),
    [
        ("127.0.0.1", ("localhost", "127.0.0.1", "::1")),
        ("0.0.0.0", ()),
    ],
)
def test_a_page_for_the_network_says_so(
    several, capsys, monkeypatch, host, hosts
):
    """`serve` without the server itself."""
    made = []
    monkeypatch.setattr(web, "make_app", lambda *given: made.append(given))
    import uvicorn

    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: None)
    with web.listen(host, 0) as listening:
        web.serve(several, "demo", listening, 100)
        port = listening.getsockname()[1]
    assert made == [(several, "demo", 100, hosts, None)]
    out = capsys.readouterr().out
    assert out.endswith(
        f"demo is at http://{host}:{port}; press Ctrl-C to stop\n"
    )
    assert ("whole network" in out) == (host == "0.0.0.0")


def test_the_page_is_warm_before_its_address_is_printed(capsys, monkeypatch):
    def translate(texts):
        print(f"translated {len(texts)} texts")

    fake = types.SimpleNamespace(translate=translate, languages=(None, None))
    monkeypatch.setattr(web, "make_app", lambda *given: None)
    import uvicorn

    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: None)
    with web.listen("127.0.0.1", 0) as listening:
        web.serve(fake, "demo", listening, 100)
    first, last = capsys.readouterr().out.splitlines()
    assert first == "translated 2 texts" and last.startswith("demo is at ")
