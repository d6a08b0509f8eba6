"""Requests that are refused; the answer is JSON with a message."""

import re
from collections.abc import Awaitable, Callable

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.requests import ClientDisconnect

from keras_transformer.support.errors import InputError

BYTES_PER_CHARACTER = 12  # at most, in JSON: two escapes of UTF-16

_QUERY = (
    "The address must have a text, and may have a number as hypothesis: "
    "?text=...&hypothesis=0."
)
_BODY = 'A request must be {"text": "..."}.'


async def read_body(request: Request, most_bytes: int) -> bytes:
    """Returns the body of a request; HTTPException if it is larger."""
    content = bytearray()
    try:
        async for part in request.stream():
            content += part
            if len(content) > most_bytes:
                limit = f"A request may have at most {most_bytes:,} bytes."
                raise HTTPException(413, f"{limit} Received: more")
    except ClientDisconnect as error:  # nobody reads the answer
        raise InputError("The request is incomplete.") from error
    return bytes(content)


def _refuse(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status)


async def _refuse_input(request: Request, error: InputError) -> JSONResponse:
    return _refuse(400, str(error))


async def _refuse_invalid(
    request: Request, error: RequestValidationError | ValidationError
) -> JSONResponse:
    expected = _QUERY if request.method == "GET" else _BODY
    problems = [
        f"{'.'.join(map(str, problem['loc'])) or 'request'}: "
        f"{problem['msg']}. Received: {problem['input']!r:.100}"
        for problem in error.errors()
    ]
    return _refuse(400, "\n".join([expected, *problems[:3]]))


async def _refuse_http(request: Request, error: HTTPException) -> JSONResponse:
    state, message = request.app.state, error.detail
    path = f"/v1/models/{state.name}"
    if error.status_code != 413:
        message = (
            "This server answers GET /, /trace, /attention, "
            f"{path} and {path}/metadata, and POST /translate, /document and "
            f"{path}:predict; {path}/versions/{state.translator.version} is "
            f"the same model as {path}. Received: {request.method} "
            f"{request.url.path}"
        )
    return _refuse(error.status_code, message)


EXCEPTION_HANDLERS = {
    InputError: _refuse_input,
    RequestValidationError: _refuse_invalid,
    ValidationError: _refuse_invalid,
    **dict.fromkeys((404, 405, 413), _refuse_http),
}


async def refuse_other_sites(
    request: Request, answer: Callable[[Request], Awaitable[Response]]
) -> Response:
    """Refuses what a browser requests for the page of another site."""
    reason = _reason_to_refuse(request, request.app.state.hosts)
    return _refuse(403, reason) if reason else await answer(request)


def _reason_to_refuse(request: Request, hosts: tuple[str, ...]) -> str | None:
    """Returns why a request may come from the page of another site, or None."""
    host = request.headers.get("host", "")
    named = (f"[{name}]" if ":" in name else name for name in hosts)
    names = "|".join(map(re.escape, named))
    # The header itself: what cannot be parsed must not pass.
    if hosts and not re.fullmatch(rf"({names})(:\d+)?", host, re.I | re.A):
        expected = f"The address must begin with {' or '.join(hosts)}."
        return f"{expected} Received: {host}"
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
