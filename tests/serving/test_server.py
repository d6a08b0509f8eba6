"""The server that `serve` starts."""

import concurrent.futures
import copy
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import types

import pytest
from documents import ROOT
from web_server import PREDICT, predict, served

import keras_transformer as kt
from keras_transformer.serving import server


def test_requests_do_not_block_each_other(several):
    """One that takes long is overtaken."""
    waiting = threading.Event()

    def translate(texts, **arguments):
        if texts == ["slow"]:
            assert waiting.wait(20)
        return several.translate(texts, **arguments)

    slow = copy.copy(several)
    slow.translate = translate
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
        server.make_app(several, "demo", 100)


@pytest.mark.parametrize("max_characters", [0, -1, "x"])
def test_the_length_of_texts_is_checked(several, max_characters):
    with pytest.raises(kt.InputError, match="must be a positive integer"):
        server.make_app(several, "demo", max_characters)


def test_a_port_in_use_is_refused(address):
    port = int(address.rpartition(":")[2])
    with pytest.raises(kt.InputError, match=f"port {port}. Choose another"):
        server.listen("127.0.0.1", port)


@pytest.mark.parametrize("port", [-1, 70_000])
def test_ports_that_do_not_exist(port):
    with pytest.raises(kt.InputError, match=f"Received: {port}"):
        server.listen("127.0.0.1", port)


@pytest.mark.parametrize("host", ["a..b", "x" * 64, "no.such.invalid"])
def test_names_that_do_not_exist(host):
    with pytest.raises(kt.InputError, match=f"Cannot listen on {host}"):
        server.listen(host, 0)


def test_addresses_of_version_6():
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    with server.listen("::1", 0) as listening:
        assert listening.family == socket.AF_INET6


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_page_for_the_network_says_so(several, capsys, monkeypatch, host):
    """`serve` without the server itself."""
    made = []
    monkeypatch.setattr(server, "make_app", lambda *given: made.append(given))
    import uvicorn

    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: None)
    monkeypatch.setattr(socket, "gethostname", lambda: "Pc.lan")
    monkeypatch.setattr(socket, "getfqdn", lambda: "pc.example")
    with server.listen(host, 0) as listening:
        server.serve(several, "demo", listening, 100, None, ["My.example"])
        port = listening.getsockname()[1]
    hosts = ("localhost", "pc.lan", "pc", "pc.local", "my.example")
    hosts += ("pc.example",) * (host == "0.0.0.0")
    assert made == [(several, "demo", 100, hosts, None)]
    out = capsys.readouterr().out
    name = "pc.example" if host == "0.0.0.0" else host
    assert out.endswith(f"demo is at http://{name}:{port} (Ctrl-C stops it)\n")
    assert ("whole network" in out) == (host == "0.0.0.0")


@pytest.mark.parametrize(
    ("languages", "start"), [((), ""), (("deu", "fra"), ">>deu<< ")]
)
def test_the_page_is_warm_before_its_address_is_printed(
    capsys, monkeypatch, languages, start
):
    def translate(texts):
        print(texts)

    # A SavedModel has languages, and no tokenizer.
    fake = types.SimpleNamespace(
        translate=translate, tokenizer=None, target_languages=languages
    )
    monkeypatch.setattr(server, "make_app", lambda *given: None)
    import uvicorn

    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: None)
    with server.listen("127.0.0.1", 0) as listening:
        server.serve(fake, "demo", listening, 100)
    first, last = capsys.readouterr().out.splitlines()
    assert first == str([f"{start}A1?", f"{start}A1? A1?"])
    assert last.startswith("demo is at ")


# The command `serve`; translations of "Yes" take 60 seconds.
SLOW = """
import logging, os, signal, sys, time
from types import SimpleNamespace
from fake_translator import FakeTranslator
from keras_transformer.cli import exporting, terminal
from keras_transformer.serving import server
logging.basicConfig(level="INFO", format="%(message)s", stream=sys.stdout)
# A test program in the background ignores it, as do its children.
signal.signal(signal.SIGINT, signal.default_int_handler)
class Slow(FakeTranslator):
    def _translate_batch(self, rows, workers, sources, prefixes):
        if "Yes" in sources.texts:
            os.write(1, b"answering\\n")  # at once, from any thread
            time.sleep(60)
        return super()._translate_batch(rows, workers, sources, prefixes)
server._SECONDS_TO_FINISH = 1
exporting.read_folder = lambda path: SimpleNamespace(name="demo")
model = SimpleNamespace(open=lambda *arguments: Slow())
sys.exit(terminal.run(lambda: exporting.serve([""], port=0, model=model)))
"""


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (signal.SIGTERM, 143, "terminated"),
        (signal.SIGINT, 130, "interrupted"),
    ],
)
def test_a_server_ends_in_spite_of_its_requests(number, code, message):
    """One whose body is missing, and two that are being answered."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests" / "helpers")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    requests = [
        ("/translate", '{"text": "Yes"}', 99),
        ("/translate", '{"text": "Yes"}', 15),
        (PREDICT, '{"instances": ["Yes"]}', 22),
    ]
    with process:
        line = process.stdout.readline()
        port = int(re.search(r":(\d+) ", line)[1])
        waiting = []
        for path, body, length in requests:
            client = socket.create_connection(("127.0.0.1", port))
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n"
            head += f"Content-Length: {length}\r\n\r\n"
            client.sendall((head + body).encode())
            waiting.append(client)
        lines = [process.stdout.readline() for _ in range(2)]
        process.send_signal(number)
        try:
            errors = process.communicate(timeout=15)[1]
        finally:
            process.kill()
            for client in waiting:
                client.close()
    assert lines == ["answering\n"] * 2
    assert errors.endswith(f"keras-transformer: {message}\n")
    assert "Exception in ASGI" not in errors
    assert process.returncode == code
