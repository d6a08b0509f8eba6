"""Shows a trace as text for a terminal, and as Markdown, of the same tables."""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_transformer.plotting.tracing import (
        Hypothesis,
        SearchTrace,
        Trace,
        TraceStep,
    )

# Characters of a hypothesis in a table; of a longer one the end is shown.
_WIDTH = 40

_Rows = list[dict[str, Any]]  # cells by the names of their columns


def as_text(trace: "Trace") -> str:
    """Returns a trace as text, with aligned columns."""
    return _join(trace, "{}", _printable, _text_table)


def as_markdown(trace: "Trace") -> str:
    """Returns a trace as Markdown."""
    return _join(trace, "## {}", _escape, _markdown_table)


def _join(
    trace: "Trace",
    heading: str,
    plain: Callable[[str], str],
    table: Callable[[str, _Rows], str],
) -> str:
    search = trace.beam.search
    parts = [
        plain(f"Source: {trace.source}"),
        plain(f"The encoder reads: {' '.join(trace.source_pieces)}"),
        heading.format("Greedy search"),
        table("", _greedy_rows(trace.greedy)),
        _ending(trace.greedy),
    ]
    if search.beam_size > 1:
        name = f"Beam search with {search.beam_size} hypotheses"
        parts.append(heading.format(f"{name}, alpha {search.alpha:g}"))
        for step in trace.beam.steps:
            parts += [table(*one) for one in _step_tables(step)]
        parts.append(_ending(trace.beam))
    title = f"score = log P / length penalty, {search.formula} of n tokens"
    results = table(title, _result_rows(trace))
    return "\n\n".join([*parts, heading.format("Results"), results]) + "\n"


def _greedy_rows(found: "SearchTrace") -> _Rows:
    """One row per step: a greedy search has one hypothesis."""
    return [
        {
            "step": number,
            "decoder input": _pieces(step.hypotheses[0]),
            "most probable": _best(step.hypotheses[0]),
            "chosen": step.continuations[0].token.piece,
            "log P": f"{step.continuations[0].log_prob:.2f}",
        }
        for number, step in enumerate(found.steps, 1)
    ]


def _step_tables(step: "TraceStep") -> Iterator[tuple[str, _Rows]]:
    """What the model says of each hypothesis, and what the search takes."""
    rows = [
        {
            "": number,
            "decoder input": _pieces(one),
            "log P": f"{one.log_prob:.2f}",
            "most probable": _best(one),
        }
        for number, one in enumerate(step.hypotheses, 1)
    ]
    yield f"Step {step.length}: the live hypotheses", rows
    rows = [
        {
            "from": one.parent + 1,
            "token": one.token.piece,
            "P": f"{one.token.probability:.3f}",
            "log P": f"{one.log_prob:.2f}",
            "score": f"{one.score:.3f}" if one.fate == "finished" else "",
            "becomes": one.fate,
        }
        for one in step.continuations
    ]
    tokens = "1 token" if step.length == 1 else f"{step.length} tokens"
    title = (
        f"Step {step.length}: their best continuations, of {tokens}, length "
        f"penalty {step.length_penalty:.3f}"
    )
    yield title, rows


def _result_rows(trace: "Trace") -> _Rows:
    """What the greedy search found, and below it what the beam search did."""
    results = [("greedy", one) for one in trace.greedy.finished]
    if trace.beam.search.beam_size > 1:
        best = enumerate(trace.beam.finished, 1)
        results += [(f"beam {number}", one) for number, one in best]
    return [
        {
            "": name,
            "translation": one.text,
            "tokens": len(one.pieces),
            "log P": f"{one.log_prob:.2f}",
            "length penalty": f"{one.length_penalty:.3f}",
            "score": f"{one.score:.3f}",
        }
        for name, one in results
    ]


def _ending(found: "SearchTrace") -> str:
    if found.at_max_length:
        return f"Ended at the maximum length of {found.max_length} tokens."
    if found.search.beam_size == 1:
        return "Ended with the end token."
    return (
        f"Ended after {len(found.steps)} steps: no live hypothesis can score "
        "better than the finished ones."
    )


def _pieces(hypothesis: "Hypothesis") -> str:
    text = " ".join(hypothesis.pieces)
    return text if len(text) <= _WIDTH else "…" + text[1 - _WIDTH :]


def _best(hypothesis: "Hypothesis") -> str:
    best = (f"{one.piece} {one.probability:.3f}" for one in hypothesis.best)
    return "  ".join(best)


def _text_table(title: str, rows: _Rows) -> str:
    columns = [[name, *(str(row[name]) for row in rows)] for name in rows[0]]
    padded = [
        [cell.ljust(max(map(len, column))) for cell in column]
        for column in columns
    ]
    lines = (
        "  ".join(("", *row)).rstrip() for row in zip(*padded, strict=True)
    )
    return "\n".join([title, *lines] if title else lines)


def _markdown_table(title: str, rows: _Rows) -> str:
    cells = [rows[0], ["---"] * len(rows[0]), *(row.values() for row in rows)]
    lines = [f"| {' | '.join(_escape(str(x)) for x in row)} |" for row in cells]
    return "\n".join([*([f"**{title}**", ""] if title else []), *lines])


def _printable(text: str) -> str:
    """Returns text without what a terminal would obey."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode()
        for one in text
    )


def _escape(text: str) -> str:
    """Returns text that Markdown shows as it is, in one line."""
    text = re.sub(r"([\\`*_\[\]|<>&~#])", r"\\\1", text)
    return " ".join(text.split())
