"""Requests that are refused: a page for browsers, for others JSON."""

import ipaddress
import re
from collections.abc import Awaitable, Callable, Collection

import anyio
from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import ValidationError
from starlette.requests import ClientDisconnect

from keras_transformer.plotting.html_pages import render_page
from keras_transformer.support.errors import InputError

BYTES_PER_CHARACTER = 12  # at most, in JSON: two escapes of UTF-16
SECONDS_TO_SEND = 30  # that a client has for a request

_QUERY = (
    "The address must have a text, and may have a number as hypothesis: "
    "?text=...&hypothesis=0."
)
_BODY = 'A request must be {"text": "..."}, and may have a "target_language".'


async def read_body(request: Request, most_bytes: int) -> bytes:
    """Returns the body; HTTPException if it is large, slow or compressed."""
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        limit = "A request must not be compressed."
        raise HTTPException(415, f"{limit} Received: {encoding}")
    content = bytearray()
    try:
        with anyio.fail_after(SECONDS_TO_SEND):
            async for part in request.stream():
                content += part
                if len(content) > most_bytes:
                    limit = f"A request may have at most {most_bytes:,} bytes."
                    raise HTTPException(413, f"{limit} Received: more")
    except TimeoutError as error:
        limit = f"A request must arrive within {SECONDS_TO_SEND} seconds."
        received = f"{limit} Received: {len(content):,} bytes"
        raise HTTPException(408, received, {"Connection": "close"}) from error
    except ClientDisconnect as error:  # nobody reads the answer
        raise InputError("The request is incomplete.") from error
    return bytes(content)


def _refuse(request: Request, status: int, message: str) -> Response:
    data = {"error": message}
    if "text/html" in request.headers.get("accept", ""):
        page = render_page(__package__, "error.html", "Refused", data)
        return HTMLResponse(page, status)
    return JSONResponse(data, status)


async def _refuse_input(request: Request, error: InputError) -> Response:
    return _refuse(request, 400, str(error))


async def _refuse_invalid(
    request: Request, error: RequestValidationError | ValidationError
) -> Response:
    expected = _QUERY if request.method == "GET" else _BODY
    problems = [
        f"{'.'.join(map(str, problem['loc'])) or 'request'}: "
        f"{problem['msg']}. Received: {problem['input']!r:.100}"
        for problem in error.errors()
    ]
    return _refuse(request, 400, "\n".join([expected, *problems[:3]]))


async def _refuse_http(request: Request, error: HTTPException) -> Response:
    message, path = error.detail, f"/v1/models/{request.app.state.name}"
    if error.status_code in (404, 405):
        message = (
            f"This server answers GET /, /trace, /attention and {path}, and "
            f"POST /translate, /document and {path}:predict. Received: "
            f"{request.method} {request.url.path}"
        )
    response = _refuse(request, error.status_code, message)
    response.headers.update(error.headers or {})
    return response


EXCEPTION_HANDLERS = {
    InputError: _refuse_input,
    RequestValidationError: _refuse_invalid,
    ValidationError: _refuse_invalid,
    **dict.fromkeys((404, 405, 408, 413, 415), _refuse_http),
}


async def refuse_other_sites(
    request: Request, answer: Callable[[Request], Awaitable[Response]]
) -> Response:
    """Refuses what a browser requests for the page of another site."""
    reason = _reason_to_refuse(request, request.app.state.hosts)
    if reason:
        response = _refuse(request, 403, reason)
    else:
        response = await answer(request)
    response.headers["Content-Security-Policy"] = "frame-ancestors 'none'"
    return response


def _reason_to_refuse(request: Request, hosts: Collection[str]) -> str | None:
    """Returns why a request may come from the page of another site, or None."""
    host = request.headers.get("host", "")
    # The header itself: what cannot be parsed must not pass.
    parts = re.fullmatch(r"(?:\[([\w:.]+)\]|([\w.-]+))(:\d+)?", host, re.A)
    name = (parts[1] or parts[2]).lower() if parts else ""
    # Others may point a name of theirs at this computer, but own no address.
    if not (parts and (name in hosts or _is_ip_address(name))):
        return (
            f"The address must begin with one of {', '.join(hosts)}, or an IP "
            "address; `serve --allowed-host NAME` adds a name. Received: "
            f"{host}"
        )
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", "none")
    if site not in ("none", "same-origin") or (
        origin is not None and origin.partition("://")[2] != host
    ):
        return (
            "A page of another site must not use this one. Enter its address "
            f"in the browser. Received: Origin {origin}, Sec-Fetch-Site {site}"
        )
    return None


def _is_ip_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
