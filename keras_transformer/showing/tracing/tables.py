"""Shows a trace as text for a terminal, and as Markdown, of the same tables."""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from keras_transformer.showing.tracing.steps import (
    Hypothesis,
    SearchTrace,
    Trace,
    TraceStep,
)

# Characters of a hypothesis in a table; of a longer one the end is shown.
_WIDTH = 40


class _Table(NamedTuple):
    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def as_text(trace: Trace) -> str:
    """Returns a trace as text, with aligned columns."""
    return _join(trace, "{}", _printable, _text_table)


def as_markdown(trace: Trace) -> str:
    """Returns a trace as Markdown."""
    return _join(trace, "## {}", _escape, _markdown_table)


def _join(
    trace: Trace,
    heading: str,
    plain: Callable[[str], str],
    table: Callable[[_Table], str],
) -> str:
    search = trace.beam.search
    parts = [
        plain(f"Source: {trace.source}"),
        plain(f"The encoder reads: {' '.join(trace.source_pieces)}"),
        heading.format("Greedy search"),
        table(_greedy_table(trace.greedy)),
        _ending(trace.greedy),
    ]
    if search.beam_size > 1:
        name = f"Beam search with {search.beam_size} hypotheses"
        parts.append(heading.format(f"{name}, alpha {search.alpha:g}"))
        for step in trace.beam.steps:
            parts += map(table, _step_tables(step))
        parts.append(_ending(trace.beam))
    parts += [heading.format("Results"), table(_result_table(trace))]
    return "\n\n".join(parts) + "\n"


def _greedy_table(found: SearchTrace) -> _Table:
    """One row per step: a greedy search has one hypothesis."""
    rows = []
    for number, step in enumerate(found.steps, 1):
        chosen = step.continuations[0]
        pieces, best = _described(step.hypotheses[0])
        log_prob = f"{chosen.log_prob:.2f}"
        rows.append((str(number), pieces, best, chosen.token.piece, log_prob))
    header = ("step", "decoder input", "most probable", "chosen", "log P")
    return _Table("", header, rows)


def _step_tables(step: TraceStep) -> Iterator[_Table]:
    """What the model says of each hypothesis, and what the search takes."""
    rows = []
    for number, hypothesis in enumerate(step.hypotheses, 1):
        pieces, best = _described(hypothesis)
        rows.append((str(number), pieces, f"{hypothesis.log_prob:.2f}", best))
    header = ("", "decoder input", "log P", "most probable")
    yield _Table(f"Step {step.length}: the live hypotheses", header, rows)
    tokens = "1 token" if step.length == 1 else f"{step.length} tokens"
    yield _Table(
        f"Step {step.length}: their best continuations, of {tokens}, length "
        f"penalty {step.length_penalty:.3f}",
        ("from", "token", "P", "log P", "score", "becomes"),
        [
            (
                str(one.parent + 1),
                one.token.piece,
                f"{one.token.probability:.3f}",
                f"{one.log_prob:.2f}",
                f"{one.score:.3f}" if one.fate == "finished" else "",
                one.fate,
            )
            for one in step.continuations
        ],
    )


def _result_table(trace: Trace) -> _Table:
    """What the greedy search found, and below it what the beam search did."""
    results = [("greedy", one) for one in trace.greedy.finished]
    if trace.beam.search.beam_size > 1:
        best = enumerate(trace.beam.finished, 1)
        results += [(f"beam {number}", one) for number, one in best]
    return _Table(
        "score = log P / length penalty",
        ("", "translation", "tokens", "log P", "length penalty", "score"),
        [
            (
                name,
                one.text,
                str(len(one.pieces)),
                f"{one.log_prob:.2f}",
                f"{one.length_penalty:.3f}",
                f"{one.score:.3f}",
            )
            for name, one in results
        ],
    )


def _ending(found: SearchTrace) -> str:
    if found.at_max_length:
        return f"Ended at the maximum length of {found.max_length} tokens."
    if found.search.beam_size == 1:
        return "Ended with the end token."
    return (
        f"Ended after {len(found.steps)} steps: no live hypothesis can score "
        "better than the finished ones."
    )


def _described(hypothesis: Hypothesis) -> tuple[str, str]:
    """Returns what the decoder reads, and the most probable next tokens."""
    text = " ".join(hypothesis.pieces)
    text = text if len(text) <= _WIDTH else "…" + text[1 - _WIDTH :]
    best = (f"{one.piece} {one.probability:.3f}" for one in hypothesis.best)
    return text, "  ".join(best)


def _text_table(table: _Table) -> str:
    columns = zip(table.header, *table.rows, strict=True)
    padded = [
        [cell.ljust(max(map(len, column))) for cell in column]
        for column in columns
    ]
    rows = ("  ".join(("", *row)).rstrip() for row in zip(*padded, strict=True))
    return "\n".join([table.title, *rows] if table.title else rows)


def _markdown_table(table: _Table) -> str:
    rows = [table.header, ("---",) * len(table.header), *table.rows]
    lines = [f"| {' | '.join(map(_escape, row))} |" for row in rows]
    title = [f"**{table.title}**", ""] if table.title else []
    return "\n".join([*title, *lines])


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
