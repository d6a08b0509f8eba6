"""A small web page to try a model with. It is not made for production.

The JSON endpoints have the shape of TensorFlow Serving's REST API, so that a
program that was tried here can be pointed at a real server.
"""

import ipaddress
import re
import socket
from typing import TYPE_CHECKING, Annotated, Any, Literal

from keras_transformer.decoding.search import BeamSearch
from keras_transformer.inference.texts import Translation
from keras_transformer.showing.pages import attention_page, render
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import POSITIVE_INTEGER, check_values

if TYPE_CHECKING:
    from fastapi import FastAPI, Request

    from keras_transformer.inference.translator import Translator
    from keras_transformer.litert import LiteRTTranslator

_MOST_TEXTS = 32  # of a request
_BYTES_PER_CHARACTER = 12  # at most, in JSON: two escapes of UTF-16
_BYTES_AROUND = 2**16  # names, brackets and spaces around the texts
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")

# What requests must be.
_QUERY = (
    "The address must have a text, and may have a number as hypothesis: "
    "?text=...&hypothesis=0."
)
_BODY = (
    'A request must be {"instances": ["...", ...]} or '
    '{"inputs": {"text": ["...", ...]}}.'
)


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


def make_app(
    translator: "Translator | LiteRTTranslator",
    name: str,
    max_characters: int,
    hosts: tuple[str, ...] = _LOOPBACK_NAMES,
) -> "FastAPI":
    """Returns the web application of a translator.

    It answers `GET /`, the page; `GET /trace` and `GET /attention`, the pages
    of a text and one of its outputs, which LiteRT does not have; and as
    TensorFlow Serving `GET /v1/models/NAME` and
    `POST /v1/models/NAME:predict`. Requests are answered in threads.

    A browser's requests from pages of other sites are refused, so that these
    cannot use the model through the browser of their readers.

    Args:
        translator: The translator. Its `num_translations` are shown.
        name: Name of the model, in addresses.
        max_characters: Length of the longest text that is accepted.
        hosts: Names that requests may use for this computer, or `()` for any.

    Raises:
        InputError: If `max_characters` is not a positive integer, or FastAPI
            or Uvicorn is not installed.
    """
    check_installed()
    import pydantic
    from fastapi import FastAPI, HTTPException, Query, Request
    from fastapi.concurrency import run_in_threadpool
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import HTMLResponse, JSONResponse
    from starlette.requests import ClientDisconnect

    check_values(POSITIVE_INTEGER, max_characters=max_characters)
    most_bytes = (
        _MOST_TEXTS * max_characters * _BYTES_PER_CHARACTER + _BYTES_AROUND
    )
    Text = Annotated[str, pydantic.Field(max_length=max_characters)]
    QueryText = Annotated[str, Query(max_length=max_characters)]
    # Either format may name its only input.
    unnamed = pydantic.BeforeValidator(
        lambda value: value.get("text") if isinstance(value, dict) else value
    )
    Texts = Annotated[
        list[Annotated[Text, unnamed]], pydantic.Field(max_length=_MOST_TEXTS)
    ]

    class Body(pydantic.BaseModel):
        """https://www.tensorflow.org/tfx/serving/api_rest has both formats."""

        signature_name: Literal["serving_default"] = "serving_default"
        instances: Texts | None = None
        inputs: Annotated[Texts | None, unnamed] = None

        @pydantic.model_validator(mode="after")
        def has_one_format(self) -> "Body":
            if (self.instances is None) == (self.inputs is None):
                raise ValueError("needs either instances or inputs")
            return self

    has_attention = hasattr(translator, "attention")
    pages = "/, /trace, /attention" if has_attention else "/"
    app = FastAPI(title=name, openapi_url=None)

    def refusal(status: int, message: str) -> JSONResponse:
        return JSONResponse({"error": message}, status)

    @app.exception_handler(InputError)
    def refuse(request: Request, error: InputError) -> JSONResponse:
        return refusal(400, str(error))

    @app.exception_handler(pydantic.ValidationError)
    @app.exception_handler(RequestValidationError)
    def refuse_invalid(request: Request, error: Any) -> JSONResponse:
        expected = _QUERY if request.method == "GET" else _BODY
        problems = [
            f"{'.'.join(map(str, problem['loc'])) or 'request'}: "
            f"{problem['msg']}. Received: {problem['input']!r:.100}"
            for problem in error.errors()
        ]
        return refusal(400, "\n".join([expected, *problems[:3]]))

    @app.exception_handler(404)
    @app.exception_handler(405)
    def not_found(request: Request, error: HTTPException) -> JSONResponse:
        return refusal(
            error.status_code,
            f"This page answers GET {pages} and /v1/models/{name}, and POST "
            f"/v1/models/{name}:predict. Received: {request.method} "
            f"{request.url.path}",
        )

    @app.middleware("http")
    async def refuse_foreign(request: Request, answer: Any) -> Any:
        problem = _foreign(request, hosts)
        return refusal(403, problem) if problem else await answer(request)

    @app.get("/", response_class=HTMLResponse)
    def page() -> str:
        data = {
            "name": name,
            "output": translator.task.output,
            "has_trace": has_attention
            and isinstance(translator.search, BeamSearch),
            "has_attention": has_attention,
        }
        return render("serve", f"Try {name}", data)

    if has_attention:
        from keras_transformer.showing.tracing import trace

        @app.get("/trace", response_class=HTMLResponse)
        def trace_page(text: QueryText, hypothesis: int = 0) -> str:
            return trace(translator, text).to_html(hypothesis)

        @app.get("/attention", response_class=HTMLResponse)
        def attention(text: QueryText, hypothesis: int = 0) -> str:
            return attention_page(translator.attention(text, hypothesis))

    @app.get(f"/v1/models/{name}")
    def status() -> dict[str, Any]:
        state = {
            "version": "1",
            "state": "AVAILABLE",
            "status": {"error_code": "OK", "error_message": ""},
        }
        return {"model_version_status": [state]}

    # As TensorFlow Serving, it reads the body as JSON whatever its type is.
    @app.post(f"/v1/models/{name}:predict")
    async def predict(request: Request) -> Any:
        content = bytearray()
        try:
            async for part in request.stream():
                content += part
                if len(content) > most_bytes:
                    return refusal(
                        413,
                        f"A request may have at most {most_bytes:,} bytes. "
                        "Received: more",
                    )
        except ClientDisconnect:
            return refusal(400, "The request is incomplete.")  # nobody reads
        body = Body.model_validate_json(bytes(content))
        by_row = body.inputs is None
        texts = body.instances if by_row else body.inputs
        columns = await run_in_threadpool(_columns, translator, texts)
        if not by_row:
            return {"outputs": columns}
        rows = zip(*columns.values(), strict=True)
        return {
            "predictions": [
                dict(zip(columns, row, strict=True)) for row in rows
            ]
        }

    return app


def _foreign(request: "Request", hosts: tuple[str, ...]) -> str | None:
    """Returns why a request may come from the page of another site."""
    host = request.headers.get("host", "")
    names = "|".join(re.escape(f"[{h}]" if ":" in h else h) for h in hosts)
    # The header itself: what cannot be parsed must not pass.
    if hosts and not re.fullmatch(rf"({names})(:\d+)?", host, re.I | re.A):
        return (
            f"The address must begin with {' or '.join(hosts)}. Received: "
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


def _columns(
    translator: "Translator | LiteRTTranslator", texts: list[str]
) -> dict[str, list[Any]]:
    """Returns what `serving_default` of an export returns, by name."""
    found = translator.translate(texts)
    columns = translator.task.columns(
        Translation(
            *([getattr(one, x) for one in found] for x in Translation._fields)
        )
    )
    # Empty slots have the score -inf, which JSON lacks.
    scores = [[max(x, -3e38) for x in row] for row in columns["scores"]]
    return {**columns, "scores": scores}


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
    except (OSError, UnicodeError) as error:  # a name that DNS cannot have
        raise InputError(
            f"Cannot listen on {host}, port {port}. Choose another --port or "
            f"--host. Received: {getattr(error, 'strerror', None) or error}"
        ) from error


def serve(
    translator: "Translator | LiteRTTranslator",
    name: str,
    listening: socket.socket,
    max_characters: int,
) -> None:
    """Prints the address, and answers requests until it is interrupted.

    Arguments are those of `make_app`; `listening` is what `listen` returns.
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
