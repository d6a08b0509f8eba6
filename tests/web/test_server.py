import concurrent.futures
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
from fake_translator import FakeTranslator
from web_server import fetch, served

import keras_transformer as kt
from keras_transformer.web import server


def test_requests_do_not_block_each_other():
    waiting, fake = threading.Event(), FakeTranslator()
    translate = fake.translate_document

    def wait(text, **arguments):
        assert text != "slow" or waiting.wait(20)
        return translate(text, **arguments)

    fake.translate_document = wait
    with served(fake) as address, concurrent.futures.ThreadPoolExecutor() as p:
        url = f"{address}/translate"
        first = p.submit(fetch, url, {"text": "slow"})
        assert fetch(url, {"text": "dog"})[0] == 200
        assert not first.done()
        waiting.set()
        assert first.result()[0] == 200


@pytest.mark.parametrize("package", ["fastapi", "uvicorn"])
def test_without_the_packages_the_extra_is_named(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(kt.InputError, match=r"\.\[web\]"):
        server.make_app(FakeTranslator(), "demo", 100)


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("127.0.0.1", None),  # in use
        ("127.0.0.1", -1),
        ("127.0.0.1", 70_000),
        ("no.such.invalid", 0),
    ],
)
def test_addresses_that_cannot_be_used(address, host, port):
    port = int(address.rpartition(":")[2]) if port is None else port
    with pytest.raises(kt.InputError, match=f"{host}, port {port}"):
        server.listen(host, port)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_what_is_printed_when_the_page_is_warm(capsys, monkeypatch, host):
    def translate(texts):
        print(texts)

    # A SavedModel has languages, and no tokenizer.
    fake = types.SimpleNamespace(translate=translate, target_languages=["fr"])
    import uvicorn

    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: None)
    monkeypatch.setattr(socket, "gethostname", lambda: "pc")
    with server.listen(host, 0) as listening:
        server.serve(fake, "demo", listening, 100)
        port = listening.getsockname()[1]
    first, *warning, last = capsys.readouterr().out.splitlines()
    assert first == str([">>fr<< A1?", ">>fr<< A1? A1?"])
    assert len(warning) == (host == "0.0.0.0")
    assert all("pc, pc.local" in x and "allowed_hosts" in x for x in warning)
    name = "pc" if warning else host
    assert f"http://{name}:{port} " in last


@pytest.mark.parametrize("name", ["*", "*.example", "*x"])
def test_allowed_names_are_whole(name):
    with pytest.raises(kt.InputError, match=rf"Received: \{name}$"):
        server.make_app(FakeTranslator(), "demo", 100, ["pc", name])


def test_the_name_of_this_computer(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "Pc")
    with served(FakeTranslator()) as address:
        for name in ("pc", "PC:8000", "pc.local"):
            assert fetch(address, Host=name)[0] == 200


# The command `serve`; translations of "Yes" take 60 seconds.
SLOW = """
import logging, os, pathlib, signal, sys, time
from types import SimpleNamespace
from fake_translator import FakeBackend, FakeTranslator
from keras_transformer.cli import exporting, terminal
from keras_transformer.web import server
logging.basicConfig(level="INFO", format="%(message)s", stream=sys.stdout)
# A test program in the background ignores it, as do its children.
signal.signal(signal.SIGINT, signal.default_int_handler)
class Slow(FakeBackend):
    def translate(self, pairs, workers):
        if any(pair.text == "Yes" for pair in pairs):
            os.write(1, b"answering\\n")  # at once, from any thread
            time.sleep(60)
        return super().translate(pairs, workers)
FakeTranslator.backend_class = Slow
server._SECONDS_TO_FINISH = 1
exporting.read_folder = lambda path: SimpleNamespace(path=pathlib.Path("demo"))
model = SimpleNamespace(open=lambda *arguments, **options: FakeTranslator())
sys.exit(terminal.run(lambda _: exporting.serve([""], port=0, model=model)))
"""


def test_ctrl_c_ends_a_server_in_spite_of_its_requests():
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests" / "helpers")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    head = "POST /translate HTTP/1.1\r\nHost: localhost\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 15\r\n\r\n"
    with process:
        port = int(re.search(r":(\d+) ", process.stdout.readline())[1])
        client = socket.create_connection(("127.0.0.1", port))
        client.sendall(f'{head}{{"text": "Yes"}}'.encode())
        assert process.stdout.readline() == "answering\n"
        process.send_signal(signal.SIGINT)
        try:
            errors = process.communicate(timeout=15)[1]
        finally:
            process.kill()
            client.close()
    assert errors.endswith("keras-transformer: interrupted\n")
    assert process.returncode == 130
