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
import time
import types

import pytest
from documents import ROOT
from web_server import predict, served

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
    assert out.endswith(
        f"demo is at http://{host}:{port}; press Ctrl-C to stop\n"
    )
    assert ("whole network" in out) == (host == "0.0.0.0")


def test_the_page_is_warm_before_its_address_is_printed(capsys, monkeypatch):
    def translate(texts):
        print(f"translated {len(texts)} texts")

    fake = types.SimpleNamespace(translate=translate, languages=(None, None))
    monkeypatch.setattr(server, "make_app", lambda *given: None)
    import uvicorn

    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: None)
    with server.listen("127.0.0.1", 0) as listening:
        server.serve(fake, "demo", listening, 100)
    first, last = capsys.readouterr().out.splitlines()
    assert first == "translated 2 texts" and last.startswith("demo is at ")


@pytest.mark.parametrize("name", ["http://pc", "pc:80", "", "*"])
def test_allowed_hosts_are_names(name):
    server.check_hosts(["pc.example.org", "pc"])
    with pytest.raises(kt.InputError, match="without scheme and port"):
        server.check_hosts(["pc", name])


# Its translations take 60 seconds, but can be stopped after each second.
SLOW = """
import logging, sys, time
logging.basicConfig(level="INFO", format="%(message)s", stream=sys.stdout)
from fake_translator import FakeTranslator
from keras_transformer.cli import terminal
from keras_transformer.serving import server
class Slow(FakeTranslator):
    def translate_document(self, text, progress):
        for _ in range(600):
            time.sleep(.1)
            progress(1)
server._SECONDS_TO_FINISH = 1
with terminal._exit_on_sigterm(), server.listen("127.0.0.1", 0) as listening:
    server.serve(Slow(), "slow", listening, 100)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_ends_in_spite_of_its_requests(number):
    """One whose body is missing, and one that is being answered."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests" / "helpers")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        line = process.stdout.readline()
        port = int(re.search(r":(\d+);", line)[1])
        waiting = []
        for length in (99, 15):
            client = socket.create_connection(("127.0.0.1", port))
            head = "POST /translate HTTP/1.1\r\nHost: localhost\r\n"
            body = '{"text": "Yes"}'[:length]
            head += f"Content-Length: {max(length, len(body))}\r\n\r\n"
            client.sendall((head + body).encode())
            waiting.append(client)
        time.sleep(0.5)
        process.send_signal(number)
        try:
            errors = process.communicate(timeout=15)[1]
        finally:
            process.kill()
            for client in waiting:
                client.close()
    assert "Exception in ASGI" not in errors
    if number == signal.SIGTERM:
        assert process.returncode == 143
