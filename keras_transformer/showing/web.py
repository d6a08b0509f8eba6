"""A small web page to try a model with. It is not made for production.

The JSON endpoints have the shape of TensorFlow Serving's REST API, so that a
program that was tried here can be pointed at a real server.
"""

import ipaddress
import json
import socket
from typing import TYPE_CHECKING, Any

from keras_transformer.decoding.search import BeamSearch
from keras_transformer.inference.translator import Translator
from keras_transformer.showing.pages import attention_page, render
from keras_transformer.showing.tracing import trace
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import POSITIVE_INTEGER

if TYPE_CHECKING:
    from fastapi import FastAPI

_MOST_TEXTS = 32  # of a request
_BYTES_PER_CHARACTER = 12  # at most, in JSON: two escapes of UTF-16
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def make_app(
    translator: Translator,
    name: str,
    max_characters: int,
    hosts: tuple[str, ...] = _LOOPBACK_NAMES,
) -> "FastAPI":
    """Returns the web application of a translator.

    It answers `GET /`, the page; `GET /trace` and `GET /attention`, the pages
    of a text and one of its outputs; and as TensorFlow Serving
    `GET /v1/models/NAME` and `POST /v1/models/NAME:predict`. Requests are
    answered in threads.

    Args:
        translator: The translator. Its `num_translations` are shown.
        name: Name of the model, in addresses.
        max_characters: Length of the longest text that is accepted.
        hosts: Names that requests may use for this computer, or `()` for any.
            Others are refused, so that a page of another site cannot use the
            model through the browser of its reader.

    Raises:
        InputError: If FastAPI is not installed, or `max_characters` is not a
            positive integer.
    """
    check_installed()
    from fastapi import FastAPI, HTTPException, Request
    from fastapi.concurrency import run_in_threadpool
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import HTMLResponse, JSONResponse

    if not POSITIVE_INTEGER.accepts(max_characters):
        raise InputError(
            f"max_characters must be {POSITIVE_INTEGER.expected}. Received: "
            f"max_characters={max_characters!r}"
        )
    app = FastAPI(title=name, openapi_url=None)

    def checked(texts: list[Any]) -> list[str]:
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(f"A text must be a string. Received: {text!r}")
            if len(text) > max_characters:
                raise InputError(
                    f"A text may have at most {max_characters:,} characters. "
                    f"Received: {len(text):,} characters"
                    + (f" at index {i}" if len(texts) > 1 else "")
                )
        if len(texts) > _MOST_TEXTS:
            raise InputError(
                f"A request may have at most {_MOST_TEXTS} texts. Received: "
                f"{len(texts)}"
            )
        return texts

    def refusal(status: int, message: str) -> JSONResponse:
        return JSONResponse({"error": message}, status)

    @app.exception_handler(InputError)
    def refuse(request: Request, error: InputError) -> JSONResponse:
        return refusal(400, str(error))

    @app.exception_handler(404)
    @app.exception_handler(405)
    def not_found(request: Request, error: HTTPException) -> JSONResponse:
        return refusal(
            error.status_code,
            f"This page answers GET /, /trace, /attention and /v1/models/{name}"
            f", and POST /v1/models/{name}:predict. Received: "
            f"{request.method} {request.url.path}",
        )

    @app.exception_handler(RequestValidationError)
    def bad_query(
        request: Request, error: RequestValidationError
    ) -> JSONResponse:
        return refusal(
            400,
            "The address must have a text, and may have a number as "
            "hypothesis: ?text=...&hypothesis=0. Received: "
            f"{request.url.query}",
        )

    @app.middleware("http")
    async def check_request(request: Request, answer: Any) -> Any:
        if hosts and request.url.hostname not in hosts:
            return refusal(
                403,
                f"The address must begin with {' or '.join(hosts)}. Received: "
                f"{request.headers.get('host')}",
            )
        limit = _MOST_TEXTS * max_characters * _BYTES_PER_CHARACTER
        size = request.headers.get("content-length", "0")
        if "transfer-encoding" in request.headers:
            size = "a request in chunks, without its length"
        if not size.isdecimal() or int(size) > limit:
            return refusal(
                413,
                f"A request may have at most {limit:,} bytes. Received: {size}",
            )
        return await answer(request)

    @app.get("/", response_class=HTMLResponse)
    def page() -> str:
        data = {
            "name": name,
            "output": translator.task.output,
            "has_trace": isinstance(translator.search, BeamSearch),
        }
        return render("serve", f"Try {name}", data)

    @app.get("/trace", response_class=HTMLResponse)
    def trace_page(text: str, hypothesis: int = 0) -> str:
        return trace(translator, *checked([text])).to_html(hypothesis)

    @app.get("/attention", response_class=HTMLResponse)
    def attention(text: str, hypothesis: int = 0) -> str:
        checked([text])
        return attention_page(translator.attention(text, hypothesis))

    @app.get(f"/v1/models/{name}")
    def status() -> dict[str, Any]:
        state = {
            "version": "1",
            "state": "AVAILABLE",
            "status": {"error_code": "OK", "error_message": ""},
        }
        return {"model_version_status": [state]}

    # As TensorFlow Serving, whatever the request says that its content is.
    @app.post(f"/v1/models/{name}:predict")
    async def predict(request: Request) -> dict[str, Any]:
        texts, by_row = _texts(await request.body())
        columns = await run_in_threadpool(_columns, translator, checked(texts))
        if not by_row:
            return {"outputs": columns}
        rows = zip(*columns.values(), strict=True)
        return {
            "predictions": [
                dict(zip(columns, row, strict=True)) for row in rows
            ]
        }

    return app


def check_installed() -> None:
    """Raises an InputError unless FastAPI and Uvicorn are installed."""
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InputError(
            "The page needs FastAPI and Uvicorn, which are not installed. "
            'Install them with: pip install "keras-transformer-nmt[web]"'
        ) from error


def _texts(body: bytes) -> tuple[list[Any], bool]:
    """Returns the texts of a request, and whether it is in rows.

    https://www.tensorflow.org/tfx/serving/api_rest has both formats.
    """
    try:
        request = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"A request must be valid JSON. Received: {error}"
        ) from error
    if not isinstance(request, dict):
        raise InputError(
            f"A request must be a JSON object. Received: {request!r}"
        )
    signature = request.get("signature_name", "serving_default")
    if signature != "serving_default":
        raise InputError(
            "This page has the signature serving_default. Received: "
            f"signature_name={signature!r}"
        )
    given = {"instances", "inputs"} & request.keys()
    if len(given) != 1:
        raise InputError(
            "A request must have either instances or inputs. Received: "
            f"{', '.join(map(repr, request)) or 'nothing'}"
        )
    (form,) = given
    values = request[form]
    if form == "inputs" and isinstance(values, dict):
        values = values.get("text")
    if not isinstance(values, list):
        raise InputError(
            'Texts must be a list: {"instances": ["..."]} or {"inputs": '
            f'{{"text": ["..."]}}}}. Received: {form}={values!r}'
        )
    if form == "instances":
        values = [
            one.get("text") if isinstance(one, dict) else one for one in values
        ]
    return values, form == "instances"


def _columns(translator: Translator, texts: list[str]) -> dict[str, list[Any]]:
    """Returns what `serving_default` of an export returns, by name."""
    found = translator.translate(texts)
    columns = {
        translator.task.output: [one.texts for one in found],
        # Empty slots have the score -inf, which JSON lacks.
        "scores": [[max(x, -3e38) for x in one.scores] for one in found],
        "source_truncated": [one.source_truncated for one in found],
        "at_length_limit": [one.at_length_limit for one in found],
    }
    if translator.task.repairs:
        columns["repaired"] = [one.repaired for one in found]
    return columns


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket that accepts connections.

    Args:
        host: Name or address to listen on, such as `127.0.0.1`.
        port: Port to listen on; 0 for any that is free.

    Raises:
        InputError: If there is no such address, or the port is in use.
    """
    if not 0 <= port < 2**16:
        raise InputError(
            f"A port is a number from 0 to {2**16 - 1}. Received: {port}"
        )
    try:
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        raise InputError(
            f"Cannot listen on {host}, port {port}. Choose another --port or "
            f"--host. Received: {error.strerror}"
        ) from error


def serve(
    translator: Translator,
    name: str,
    listening: socket.socket,
    max_characters: int,
) -> None:
    """Answers requests until it is interrupted, and prints the address.

    Args:
        translator: As in `make_app`.
        name: As in `make_app`.
        listening: From `listen`.
        max_characters: As in `make_app`.

    Raises:
        InputError: As in `make_app`.
    """
    host, port = listening.getsockname()[:2]
    hosts = tuple(dict.fromkeys((*_LOOPBACK_NAMES, host)))
    if not ipaddress.ip_address(host).is_loopback:
        hosts = ()  # whatever names this computer has
        print("The page has no password: the whole network can use it.")
    app = make_app(translator, name, max_characters, hosts)
    import uvicorn

    shown = f"[{host}]" if ":" in host else host
    print(
        f"{name} is at http://{shown}:{port}; press Ctrl-C to stop", flush=True
    )
    config = uvicorn.Config(app, log_level="warning", lifespan="off")
    uvicorn.Server(config).run(sockets=[listening])
