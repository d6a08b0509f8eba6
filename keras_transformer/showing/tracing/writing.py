"""Writes a trace to a file, or as a page on which the beam is a tree."""

import os
from pathlib import Path
from typing import Any

from keras_transformer.inference.translator import check_hypothesis
from keras_transformer.showing.pages import Page, render
from keras_transformer.showing.tracing.steps import (
    SearchTrace,
    Trace,
    TraceStep,
)
from keras_transformer.support.files import atomic_write, check_output

_FORMATS = {
    ".html": Trace.to_html,
    ".md": Trace.to_markdown,
    ".txt": Trace.__str__,
}


def check_trace_path(path: str | os.PathLike) -> None:
    """Raises what `save_trace` would raise for any trace.

    Raises:
        InputError: If the file's name has another ending, or its folder does
            not exist.
    """
    check_output(path, _FORMATS)


def save_trace(trace: Trace, path: str | os.PathLike) -> None:
    """Writes a trace, atomically.

    Args:
        trace: From `keras_transformer.trace`.
        path: A file ending in `.html`, `.md` or `.txt`.

    Raises:
        InputError: As `check_trace_path`.
    """
    check_trace_path(path)
    text = _FORMATS[Path(path).suffix.lower()](trace)
    with atomic_write(path) as partial:
        partial.write_text(text, "utf-8")


def as_page(trace: Trace, hypothesis: int) -> Page:
    """Returns a trace as a page; the template is `pages/trace.html`."""
    check_hypothesis(hypothesis, len(trace.beam.finished))
    data = {
        "hypothesis": hypothesis,
        "source": trace.source,
        "source_pieces": trace.source_pieces,
        "greedy": _search(trace.greedy),
        "beam": _search(trace.beam),
    }
    return render("trace", f"Search: {trace.source}", data)


def _search(found: SearchTrace) -> dict[str, Any]:
    return {
        "beam_size": found.search.beam_size,
        "alpha": found.search.alpha,
        "steps": [_step(step) for step in found.steps],
    }


def _step(step: TraceStep) -> dict[str, Any]:
    continuations = [one._asdict() for one in step.continuations]
    return {
        **step._asdict(),
        "hypotheses": [one._asdict() for one in step.hypotheses],
        "continuations": [
            {**one, **one.pop("token")._asdict()} for one in continuations
        ],
        "finished": [one._asdict() for one in step.finished],
    }
