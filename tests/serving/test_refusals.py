"""Requests that are refused, over HTTP."""

import urllib.request

import pytest
from web_server import PREDICT, error_of


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/trace", 400, "query.text: Field required"),
        (f"/trace?text={'x' * 101}", 400, "at most 100 characters. Received: "),
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
