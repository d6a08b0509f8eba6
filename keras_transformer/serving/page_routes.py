"""The addresses of the page to try a model with."""

import re
from typing import Any

import pydantic
from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, PlainTextResponse

from keras_transformer.plotting.html_pages import attention_page, render_page
from keras_transformer.serving import refusals
from keras_transformer.support.errors import InputError
from keras_transformer.text.tags import TAG

_TEXTS_OF_A_DOCUMENT = 100  # of the longest length, as documents are longer
_BYTES_AROUND = 2**10  # names, brackets and spaces around a text

router = APIRouter()


class TextBody(pydantic.BaseModel, extra="forbid"):
    """The body of `POST /translate`."""

    text: str
    target_language: str | None = None


@router.api_route("/", methods=["GET", "HEAD"], response_class=HTMLResponse)
def show_page(request: Request) -> str:
    """Returns the page."""
    name, translator = request.app.state.name, request.app.state.translator
    data = {
        "name": name,
        "output": translator.task.output,
        "languages": translator.languages,
        "target_languages": list(translator.target_languages),
        "example": re.sub(rf"^({TAG}\s+)+", "", translator.example or ""),
        "max_characters": request.app.state.max_characters,
        "has_trace": translator.can("trace"),
        "has_attention": translator.can("attention"),
        "has_documents": translator.task.targets_are_text,
    }
    return render_page(__package__, "serve.html", f"Try {name}", data)


@router.get("/trace", response_class=HTMLResponse)
def show_trace(request: Request, text: str, hypothesis: int = 0) -> str:
    """Returns the page of a text's search."""
    translator = request.app.state.translator
    _check_length(text, request.app.state.max_characters)
    translator.check_can("trace")
    # It imports TensorFlow, which those that cannot trace do not need.
    from keras_transformer.plotting.tracing import trace

    return trace(translator, text).to_html(hypothesis)


@router.get("/attention", response_class=HTMLResponse)
def show_attention(request: Request, text: str, hypothesis: int = 0) -> str:
    """Returns the page of the attention during a translation."""
    translator = request.app.state.translator
    _check_length(text, request.app.state.max_characters)
    translator.check_can("attention")
    return attention_page(translator.attention(text, hypothesis))


@router.post("/translate")
async def translate(request: Request) -> dict[str, Any]:
    """Returns a text's translation, and the outputs of its sentences."""
    state = request.app.state
    most_bytes = state.max_characters * refusals.BYTES_PER_CHARACTER
    content = await refusals.read_body(request, most_bytes + _BYTES_AROUND)
    body = TextBody.model_validate_json(content)
    _check_length(body.text, state.max_characters)
    translate = state.translator.translate_document
    document = await run_in_threadpool(translate, **body.model_dump())
    sentences = [
        {"source": sentence, **state.translator.task.columns(translation)}
        for sentence, translation in document.translations.items()
    ]
    return {"text": document.text, "sentences": sentences}


@router.post("/document", response_class=PlainTextResponse)
async def translate_file(
    request: Request, target_language: str | None = None
) -> PlainTextResponse:
    """Returns the translation of a text file."""
    state = request.app.state
    if "multipart/" in request.headers.get("content-type", ""):
        raise InputError(
            "The body must be the text file itself, as curl --data-binary "
            "@FILE sends it. Received: a form"
        )
    most_characters = state.max_characters * _TEXTS_OF_A_DOCUMENT
    content = await refusals.read_body(request, 4 * most_characters)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"A document must be in UTF-8. Received: {error}"
        ) from error
    translate = state.translator.translate_document
    document = await run_in_threadpool(
        translate, text, target_language=target_language
    )
    num_incomplete = sum(
        translation.source_truncated or translation.at_length_limit
        for translation in document.translations.values()
    )
    headers = {"Incomplete-Sentences": str(num_incomplete)}
    headers["X-Content-Type-Options"] = "nosniff"
    return PlainTextResponse(document.text, headers=headers)


def _check_length(text: str, max_characters: int) -> None:
    if len(text) > max_characters:
        raise InputError(
            f"A text may have at most {max_characters:,} characters. "
            f"Received: {len(text):,}"
        )
