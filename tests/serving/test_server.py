"""The server that `serve` starts."""

import concurrent.futures
import copy
import socket
import sys
import threading
import types

import pytest
from web_server import predict, served

import keras_transformer as kt
from keras_transformer.serving import server


def test_requests_do_not_block_each_other(several):
    """One that takes long is overtaken."""
    waiting = threading.Event()

    def translate(texts, **arguments):
        if texts == [b"slow"]:
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
    monkeypatch.setattr(server, "make_app", lambda *given: made.append(given))
    import uvicorn

    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: None)
    with server.listen(host, 0) as listening:
        server.serve(several, "demo", listening, 100)
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
    monkeypatch.setattr(server, "make_app", lambda *given: None)
    import uvicorn

    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: None)
    with server.listen("127.0.0.1", 0) as listening:
        server.serve(fake, "demo", listening, 100)
    first, last = capsys.readouterr().out.splitlines()
    assert first == "translated 2 texts" and last.startswith("demo is at ")
