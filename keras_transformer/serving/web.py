"""A small web page to try a model with. It is not made for production.

Beside it, the addresses under `/v1/models` have the shapes of TensorFlow
Serving's REST API (`rest.py`), so that a program that was tried here can be
pointed at a real server.
"""

import ipaddress
import math
import re
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.inference.documents import (
    translate_html,
    translate_text,
)
from keras_transformer.inference.signatures import (
    Signature,
    translator_signatures,
)
from keras_transformer.plotting.pages import attention_page, render
from keras_transformer.serving.rest import (
    BYTES_PER_CHARACTER,
    TooLargeError,
    make_router,
    read_body,
)
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import POSITIVE_INTEGER, check_values
from keras_transformer.text import join_sentences, split_sentences

if TYPE_CHECKING:
    from fastapi import FastAPI, Request

    from keras_transformer.inference.texts import BaseTranslator, Translation

_TEXTS_OF_A_DOCUMENT = 100  # of the longest length, as documents are longer
_BYTES_AROUND = 2**10  # names, brackets and spaces around a text
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")

# What requests must be.
_QUERY = (
    "The address must have a text, and may have a number as hypothesis: "
    "?text=...&hypothesis=0."
)
_BODY = 'A request must be {"text": "..."}.'


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
    translator: "BaseTranslator",
    name: str,
    max_characters: int,
    hosts: tuple[str, ...] = _LOOPBACK_NAMES,
    signatures: Mapping[str, Signature] | None = None,
) -> "FastAPI":
    """Returns the web application of a translator.

    It answers `GET /`, the page; `POST /translate`, a text of sentences and
    lines; `POST /document`, a text or HTML page, which is returned translated;
    `GET /trace` and `GET /attention`, the pages of a sentence and one of its
    outputs, which exports do not have; and as TensorFlow Serving what is
    under `/v1/models/NAME`. Requests are answered in threads.

    A browser's requests from pages of other sites are refused, so that these
    cannot use the model through the browser of their readers.

    Args:
        translator: The translator. Its `num_translations` are shown.
        name: Name of the model, in addresses.
        max_characters: Length of the longest text that is accepted; that of a
            document is a hundred times as long.
        hosts: Names that requests may use for this computer, or `()` for any.
        signatures: More than the translator has: those that an export would.

    Raises:
        InputError: If `max_characters` is not a positive integer, or FastAPI
            or Uvicorn is not installed.
    """
    check_installed()
    import pydantic
    from fastapi import FastAPI, HTTPException, Query, Request
    from fastapi.concurrency import run_in_threadpool
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import HTMLResponse, JSONResponse, Response

    check_values(POSITIVE_INTEGER, max_characters=max_characters)
    QueryText = Annotated[str, Query(max_length=max_characters)]

    class Body(pydantic.BaseModel):
        text: Annotated[str, pydantic.Field(max_length=max_characters)]

    own = getattr(translator, "signatures", None)
    signatures = {
        **(signatures or {}),
        **(own or translator_signatures(translator)),
    }
    has_attention = hasattr(translator, "attention")
    has_documents = translator.task.targets_are_text
    source, target = translator.languages
    version = translator.version
    app = FastAPI(title=name, openapi_url=None)
    app.include_router(make_router(name, version, signatures, max_characters))

    def refusal(status: int, message: str) -> JSONResponse:
        return JSONResponse({"error": message}, status)

    @app.exception_handler(InputError)
    def refuse(request: Request, error: InputError) -> JSONResponse:
        is_large = isinstance(error, TooLargeError)
        return refusal(413 if is_large else 400, str(error))

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
        pages = "/, /trace, /attention" if has_attention else "/"
        posts = "/translate, /document" if has_documents else "/translate"
        model = f"/v1/models/{name}"
        return refusal(
            error.status_code,
            f"This page answers GET {pages}, {model} and {model}/metadata, and "
            f"POST {posts} and {model}:predict; {model}/versions/{version} is "
            f"{model}. Received: {request.method} {request.url.path}",
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
            "languages": [source, target],
            "example": translator.example,
            "has_trace": has_attention
            and isinstance(translator.search, BeamSearch),
            "has_attention": has_attention,
            "has_documents": has_documents,
        }
        return render("serve", f"Try {name}", data)

    if has_attention:
        from keras_transformer.plotting.tracing import trace

        @app.get("/trace", response_class=HTMLResponse)
        def trace_page(text: QueryText, hypothesis: int = 0) -> str:
            return trace(translator, text).to_html(hypothesis)

        @app.get("/attention", response_class=HTMLResponse)
        def attention(text: QueryText, hypothesis: int = 0) -> str:
            return attention_page(translator.attention(text, hypothesis))

    @app.post("/translate")
    async def translate(request: Request) -> dict[str, Any]:
        most = max_characters * BYTES_PER_CHARACTER + _BYTES_AROUND
        body = Body.model_validate_json(await read_body(request, most))
        return await run_in_threadpool(_sentences, translator, body.text)

    if has_documents:

        @app.post("/document")
        async def document(
            request: Request, format: str | None = None
        ) -> Response:
            content_type = request.headers.get("content-type", "")
            is_html = content_type.startswith("text/html")
            format = format or ("html" if is_html else "text")
            if format not in ("text", "html"):
                raise InputError(
                    "The address must be /document?format=text or "
                    f"/document?format=html. Received: {format!r:.100}"
                )
            most = max_characters * _TEXTS_OF_A_DOCUMENT
            content = await read_body(request, 4 * most)
            try:
                text = content.decode("utf-8-sig")
            except UnicodeDecodeError as error:
                raise InputError(
                    f"A document must be in UTF-8. Received: {error}"
                ) from error
            found, incomplete = await run_in_threadpool(
                _document, translator, text, format == "html", target
            )
            return Response(
                found.encode(),
                media_type="text/html" if format == "html" else "text/plain",
                headers={
                    "Incomplete-Sentences": str(incomplete),
                    # It is another site's page: no browser shows it as ours.
                    "Content-Disposition": "attachment",
                    "Content-Security-Policy": "sandbox",
                    "X-Content-Type-Options": "nosniff",
                },
            )

    return app


def _sentences(translator: "BaseTranslator", text: str) -> dict[str, Any]:
    """Returns the outputs of a text's sentences, and the whole translation."""
    pairs = split_sentences(text)
    found = iter(translator.translate([one for one, _ in pairs if one]))
    sentences, whole = [], []
    for sentence, space in pairs:
        one = next(found) if sentence else None
        whole.append((one.texts[0] if one else "", space))
        if one:
            sentences.append({"source": sentence, **_columns(translator, one)})
    return {"text": join_sentences(whole), "sentences": sentences}


def _columns(
    translator: "BaseTranslator", found: "Translation"
) -> dict[str, Any]:
    """Returns what is known of one text, without the slots that are empty."""
    count = sum(score > -math.inf for score in found.scores)
    return translator.task.columns(
        found._replace(texts=found.texts[:count], scores=found.scores[:count])
    )


def _document(
    translator: "BaseTranslator", text: str, is_html: bool, language: str | None
) -> tuple[str, int]:
    """Returns the translation, and how many of its sentences are incomplete."""
    incomplete = 0

    def translate(sentences: list[str]) -> list[str]:
        nonlocal incomplete
        found = translator.translate(sentences)
        incomplete += sum(x.source_truncated | x.at_length_limit for x in found)
        return [one.texts[0] for one in found]

    if is_html:
        return translate_html(translate, text, language), incomplete
    return translate_text(translate, text), incomplete


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
    translator: "BaseTranslator",
    name: str,
    listening: socket.socket,
    max_characters: int,
    signatures: Mapping[str, Signature] | None = None,
) -> None:
    """Warms up, prints the address, and answers until it is interrupted.

    Arguments are those of `make_app`; `listening` is what `listen` returns.
    """
    host, port = listening.getsockname()[:2]
    hosts = tuple(dict.fromkeys((*_LOOPBACK_NAMES, host)))
    if not ipaddress.ip_address(host).is_loopback:
        hosts = ()  # whatever names this computer has
        print("The page has no password: the whole network can use it.")
    app = make_app(translator, name, max_characters, hosts, signatures)
    import uvicorn

    # The first translation builds the graph: nobody should wait for it.
    translator.translate(["A1?", "A1? A1?"])
    shown = f"[{host}]" if ":" in host else host
    print(
        f"{name} is at http://{shown}:{port}; press Ctrl-C to stop", flush=True
    )
    config = uvicorn.Config(app, log_level="warning", lifespan="off")
    uvicorn.Server(config).run(sockets=[listening])
