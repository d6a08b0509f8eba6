"""Shows a trace as a page for a browser, on which the beam is a tree."""

from typing import Any

from keras_transformer.inference.tensor_translator import check_hypothesis
from keras_transformer.showing.pages import Page, render
from keras_transformer.showing.tracing.steps import (
    Continuation,
    SearchTrace,
    Step,
    Trace,
)


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


def _step(step: Step) -> dict[str, Any]:
    return {
        **step._asdict(),
        "hypotheses": [one._asdict() for one in step.hypotheses],
        "continuations": [_continuation(one) for one in step.continuations],
        "finished": [one._asdict() for one in step.finished],
    }


def _continuation(one: Continuation) -> dict[str, Any]:
    values = one._asdict()
    return {**values, **values.pop("token")._asdict()}
