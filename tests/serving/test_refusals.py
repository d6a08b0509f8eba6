"""Requests that are refused, over HTTP."""

import socket
import urllib.error
import urllib.request

import pytest
from web_server import PREDICT, error_of

from keras_transformer.serving import refusals


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/trace", 400, "query.text: Field required"),
        (f"/trace?text={'x' * 101}", 400, "at most 100 characters. Received: "),
        ("/attention?text=dog&hypothesis=x", 400, "valid integer"),
        ("/attention?text=dog&hypothesis=9", 400, "hypothesis=9"),
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
        {"Host": ":80"},
        {"Host": "127.0.0.1.evil.com"},
        {"Host": "[evil.com]"},
        {"Host": "[::1].evil.com"},
        {"Host": "1.2.3"},
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
        {"Host": "192.168.0.7:8000"},
    ],
)
def test_names_of_this_computer(address, headers):
    request = urllib.request.Request(address, None, headers)
    answer = urllib.request.urlopen(request)
    policy = answer.headers["Content-Security-Policy"]
    assert (answer.status, policy) == (200, "frame-ancestors 'none'")


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/attention?text=dog&hypothesis=9", 400, "hypothesis=9"),
        ("/trace?text=", 400, "Received: "),
        ("/other", 404, "Received: GET /other"),
    ],
)
def test_a_browser_gets_a_page(address, path, status, message):
    headers = {"Accept": "text/html,*/*;q=0.8"}
    request = urllib.request.Request(address + path, None, headers)
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request)
    headers, page = error.value.headers, error.value.read().decode()
    assert error.value.code == status
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert page.startswith("<!doctype html>") and message in page


def test_a_request_has_some_seconds(address, monkeypatch):
    monkeypatch.setattr(refusals, "SECONDS_TO_SEND", 0.1)
    host, port = address.removeprefix("http://").split(":")
    for path in ("/translate", "/document", PREDICT):
        with socket.create_connection((host, int(port)), timeout=20) as slow:
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n"
            slow.sendall(f"{head}Content-Length: 99\r\n\r\n{{".encode())
            answer = b"".join(iter(lambda: slow.recv(9999), b""))  # and closed
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"within 0.1 seconds. Received: 1 bytes" in answer


@pytest.mark.parametrize("path", ["/", PREDICT.removesuffix(":predict")])
def test_only_the_headers(address, path):
    """As `curl -I` and load balancers ask for them."""
    request = urllib.request.Request(address + path, method="HEAD")
    with urllib.request.urlopen(request) as answer:
        length = answer.headers["Content-Length"]
        assert (answer.status, answer.read()) == (200, b"")
    with urllib.request.urlopen(address + path) as answer:
        assert len(answer.read()) == int(length)
