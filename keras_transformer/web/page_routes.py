"""The routes of the page to try a model."""

import re
from typing import Any
from urllib.parse import urlsplit

import pydantic
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

from keras_transformer.inference.exports import first_run
from keras_transformer.plotting.html_pages import attention_page, render_page
from keras_transformer.plotting.tracing import trace
from keras_transformer.support.errors import InputError
from keras_transformer.text.tags import TAG


def _check_origin(request: Request) -> None:
    """Raises if a different site sends the request.

    A proxy may have changed the `Host`, which is not compared.
    """
    origin = request.headers.get("origin")
    hosts = request.app.state.hosts
    if origin is not None and urlsplit(origin).hostname not in hosts:
        raise InputError(
            "A page must be opened under a name of the server. Received: "
            f"{origin}. Add the name to `allowed_hosts`."
        )


async def explain(request: Request, error: InputError) -> JSONResponse:
    """Returns the answer to a request with an invalid value."""
    return JSONResponse({"error": str(error)}, 400)


def _forbid_frames(response: Response) -> None:
    response.headers["Content-Security-Policy"] = "frame-ancestors 'none'"


router = APIRouter(
    dependencies=[Depends(_check_origin), Depends(_forbid_frames)]
)


class TextBody(pydantic.BaseModel, extra="forbid"):
    """The body of `POST /translate`."""

    text: str
    target_language: str | None = None


@router.get("/", response_class=HTMLResponse)
def show_page(request: Request) -> str:
    """Returns the page."""
    name = request.app.state.name
    translator = request.app.state.translator
    example = first_run(translator.metadata).get("example") or ""
    data = {
        "name": name,
        "note": request.app.state.note,
        "output": translator.task.output,
        "languages": translator.languages,
        "target_languages": list(translator.target_languages),
        "example": re.sub(rf"^({TAG}\s+)+", "", example),
        "max_characters": request.app.state.max_characters,
        "has_trace": translator.has_trace,
        "has_attention": bool(translator.models),
        "has_documents": translator.task.targets_are_text,
    }
    return render_page(__package__, "serve.html", f"Try {name}", data)


@router.get("/trace", response_class=HTMLResponse)
def show_trace(request: Request, text: str, hypothesis: int = 0) -> str:
    """Returns the page of a text's search."""
    translator = request.app.state.translator
    _check_length(text, request)
    return trace(translator, text).to_html(hypothesis)


@router.get("/attention", response_class=HTMLResponse)
def show_attention(request: Request, text: str, hypothesis: int = 0) -> str:
    """Returns the page of the attention during a translation."""
    translator = request.app.state.translator
    _check_length(text, request)
    return attention_page(translator.attention(text, hypothesis))


@router.post("/translate")
def translate(request: Request, body: TextBody) -> dict[str, Any]:
    """Returns a text's translation, and the outputs of its sentences."""
    translator = request.app.state.translator
    _check_length(body.text, request)
    document = translator.translate_document(**body.model_dump())
    sentences = [
        {"source": sentence, **translator.task.columns(translation)}
        for sentence, translation in document.translations.items()
    ]
    return {"text": document.text, "sentences": sentences}


def _check_length(text: str, request: Request) -> None:
    max_characters = request.app.state.max_characters
    if len(text) > max_characters:
        raise InputError(
            f"A text can be at most {max_characters:,} characters long. "
            f"Received: {len(text):,}"
        )
