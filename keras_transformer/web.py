"""A small web page to try a model with. It is not made for production.

The JSON endpoints have the shape of TensorFlow Serving's REST API, so that a
program that was tried here can be pointed at a real server.
"""

import socket
from typing import TYPE_CHECKING, Any

from keras_transformer.errors import InputError
from keras_transformer.pages import attention_page, render
from keras_transformer.tracing import trace
from keras_transformer.translator import Translator

if TYPE_CHECKING:
    from fastapi import FastAPI

_MOST_TEXTS = 32  # of a request
_BYTES_PER_CHARACTER = 12  # at most, in JSON: two escapes of UTF-16


def make_app(
    translator: Translator, name: str, max_characters: int
) -> "FastAPI":
    """Returns the web application of a translator.

    It answers `GET /`, the page; `GET /trace` and `GET /attention`, the pages
    of a text; and as TensorFlow Serving `GET /v1/models/NAME` and
    `POST /v1/models/NAME:predict`. Requests are answered in threads.

    Args:
        translator: The translator. Its `num_translations` are shown.
        name: Name of the model, in addresses.
        max_characters: Length of the longest text that is accepted.

    Raises:
        InputError: If FastAPI is not installed.
    """
    try:
        from fastapi import Body, FastAPI, Request
        from fastapi.responses import HTMLResponse, JSONResponse
    except ImportError as error:
        raise InputError(
            "The page needs FastAPI and Uvicorn, which are not installed. "
            'Install them with: pip install "keras-transformer-nmt[web]"'
        ) from error

    app = FastAPI(title=name, openapi_url=None)

    def checked(texts: list[Any]) -> list[str]:
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(f"A text must be a string. Received: {text!r}")
            if len(text) > max_characters:
                raise InputError(
                    f"A text may have {max_characters:,} characters. Received: "
                    f"{len(text):,} characters at index {i}"
                )
        if len(texts) > _MOST_TEXTS:
            raise InputError(
                f"A request may have {_MOST_TEXTS} texts. Received: "
                f"{len(texts)}"
            )
        return texts

    @app.exception_handler(InputError)
    def refuse(request: Request, error: InputError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 400)

    @app.middleware("http")
    async def check_size(request: Request, answer: Any) -> Any:
        limit = _MOST_TEXTS * max_characters * _BYTES_PER_CHARACTER
        size = request.headers.get("content-length", "0")
        if (
            not size.isdecimal()
            or int(size) > limit
            or ("transfer-encoding" in request.headers)
        ):
            message = f"A request may have {limit:,} bytes. Received: {size}"
            return JSONResponse({"error": message}, 413)
        return await answer(request)

    @app.get("/", response_class=HTMLResponse)
    def page() -> str:
        data = {
            "name": name,
            "output": translator.task.output,
            "max_characters": max_characters,
        }
        return render("serve", f"Try {name}", data)

    @app.get("/trace", response_class=HTMLResponse)
    def trace_page(text: str) -> str:
        return trace(translator, *checked([text])).to_html()

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

    @app.post(f"/v1/models/{name}:predict")
    def predict(request: dict[str, Any] = Body()) -> dict[str, Any]:  # noqa: B008
        texts, by_row = _texts(request)
        columns = _columns(translator, checked(texts))
        if not by_row:
            return {"outputs": columns}
        rows = zip(*columns.values(), strict=True)
        return {
            "predictions": [
                dict(zip(columns, row, strict=True)) for row in rows
            ]
        }

    return app


def _texts(request: dict[str, Any]) -> tuple[list[Any], bool]:
    """Returns the texts of a request, and whether it is in rows.

    https://www.tensorflow.org/tfx/serving/api_rest has both formats.
    """
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
            f"{', '.join(request) or 'nothing'}"
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
        # JSON has no infinity: of slots that the search left empty.
        "scores": [[max(x, -3e38) for x in one.scores] for one in found],
        "source_truncated": [one.source_truncated for one in found],
        "at_length_limit": [one.at_length_limit for one in found],
    }
    if translator.task.repairs:
        columns["repaired"] = [one.repaired for one in found]
    return columns


def serve(
    translator: Translator,
    name: str,
    host: str,
    port: int,
    max_characters: int,
) -> None:
    """Answers requests until it is interrupted, and prints the address.

    Args:
        translator: As in `make_app`.
        name: As in `make_app`.
        host: Address to listen on, such as `127.0.0.1`.
        port: Port to listen on; 0 for any that is free.
        max_characters: As in `make_app`.

    Raises:
        InputError: If FastAPI or Uvicorn is not installed, or the port is in
            use.
    """
    app = make_app(translator, name, max_characters)
    import uvicorn

    try:
        listening = socket.create_server((host, port))
    except OSError as error:
        raise InputError(
            f"Cannot listen on {host}, port {port}. Choose another --port. "
            f"Received: {error.strerror}"
        ) from error
    with listening:
        port = listening.getsockname()[1]
        print(
            f"{name} is at http://{host}:{port}; press Ctrl-C to stop",
            flush=True,
        )
        config = uvicorn.Config(app, log_level="warning", lifespan="off")
        uvicorn.Server(config).run(sockets=[listening])
