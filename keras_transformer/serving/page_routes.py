"""The addresses of the page to try a model with."""

import math
from collections.abc import Iterable
from typing import Any

import pydantic
from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, PlainTextResponse

from keras_transformer.inference.base import BaseTranslator
from keras_transformer.inference.records import Translation
from keras_transformer.plotting.html_pages import attention_page, render_page
from keras_transformer.serving.served_model import (
    BYTES_PER_CHARACTER,
    Model,
    read_body,
)
from keras_transformer.support.errors import InputError

_TEXTS_OF_A_DOCUMENT = 100  # of the longest length, as documents are longer
_BYTES_AROUND = 2**10  # names, brackets and spaces around a text

router = APIRouter()


class TextBody(pydantic.BaseModel):
    """The body of `POST /translate`."""

    text: str


@router.get("/", response_class=HTMLResponse)
def show_page(model: Model) -> str:
    """Returns the page."""
    translator = model.translator
    data = {
        "name": model.name,
        "output": translator.task.output,
        "languages": translator.languages,
        "example": translator.example,
        "has_trace": translator.can("trace"),
        "has_attention": translator.can("attention"),
        "has_documents": translator.task.targets_are_text,
    }
    return render_page(__package__, "serve.html", f"Try {model.name}", data)


@router.get("/trace", response_class=HTMLResponse)
def show_trace(model: Model, text: str, hypothesis: int = 0) -> str:
    """Returns the page of a text's search."""
    model.check_text(text)
    model.translator.check_can("trace")
    from keras_transformer.plotting.tracing import trace

    return trace(model.translator, text).to_html(hypothesis)


@router.get("/attention", response_class=HTMLResponse)
def show_attention(model: Model, text: str, hypothesis: int = 0) -> str:
    """Returns the page of the attention during a translation."""
    model.check_text(text)
    model.translator.check_can("attention")
    return attention_page(model.translator.attention(text, hypothesis))


@router.post("/translate")
async def translate(model: Model, request: Request) -> dict[str, Any]:
    """Returns a text's translation, and the outputs of its sentences."""
    most_bytes = model.max_characters * BYTES_PER_CHARACTER + _BYTES_AROUND
    content = await read_body(request, most_bytes)
    text = TextBody.model_validate_json(content).text
    model.check_text(text)
    document = await run_in_threadpool(
        model.translator.translate_document, text
    )
    sentences = [
        {"source": source, **_columns(model.translator, translation)}
        for source, translation in document.translations.items()
    ]
    return {"text": document.text, "sentences": sentences}


@router.post("/document", response_class=PlainTextResponse)
async def translate_document(model: Model, request: Request) -> Any:
    """Returns the translation of a text file."""
    most_characters = model.max_characters * _TEXTS_OF_A_DOCUMENT
    content = await read_body(request, 4 * most_characters)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"A document must be in UTF-8. Received: {error}"
        ) from error
    document = await run_in_threadpool(
        model.translator.translate_document, text
    )
    incomplete = _count_incomplete(document.translations.values())
    headers = {
        "Incomplete-Sentences": str(incomplete),
        "X-Content-Type-Options": "nosniff",
    }
    return PlainTextResponse(document.text, headers=headers)


def _count_incomplete(translations: Iterable[Translation]) -> int:
    return sum(
        translation.source_truncated or translation.at_length_limit
        for translation in translations
    )


def _columns(
    translator: BaseTranslator, translation: Translation
) -> dict[str, Any]:
    """Returns a translation by names, without the slots that are empty."""
    count = sum(score > -math.inf for score in translation.scores)
    return translator.task.columns(
        translation._replace(
            texts=translation.texts[:count], scores=translation.scores[:count]
        )
    )
