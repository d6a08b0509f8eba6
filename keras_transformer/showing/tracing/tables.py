"""Shows a trace as text for a terminal, and as Markdown.

Both are made of the same tables, so that they say the same.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from keras_transformer.showing.tracing.steps import (
    Continuation,
    Hypothesis,
    SearchTrace,
    Step,
    Token,
    Trace,
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
        steps = map(_step_tables, trace.beam.steps)
        parts += [
            heading.format(f"{name}, alpha {search.alpha:g}"),
            *map(table, itertools.chain.from_iterable(steps)),
            _ending(trace.beam),
        ]
    parts += [heading.format("Results"), table(_result_table(trace))]
    return "\n\n".join(parts) + "\n"


def _greedy_table(found: SearchTrace) -> _Table:
    """One row per step: a greedy search has one hypothesis."""
    rows = []
    for number, step in enumerate(found.steps, 1):
        (hypothesis,) = step.hypotheses
        chosen = step.continuations[0]
        rows.append(
            (
                str(number),
                _pieces(hypothesis),
                _tokens(hypothesis.best),
                chosen.token.piece,
                f"{chosen.log_prob:.2f}",
            )
        )
    header = ("step", "decoder input", "most probable", "chosen", "log P")
    return _Table("", header, rows)


def _step_tables(step: Step) -> Iterable[_Table]:
    """What the model says of each hypothesis, and what the search takes."""
    yield _Table(
        f"Step {step.length}: the live hypotheses",
        ("", "decoder input", "log P", "most probable"),
        [
            (
                str(number),
                _pieces(hypothesis),
                f"{hypothesis.log_prob:.2f}",
                _tokens(hypothesis.best),
            )
            for number, hypothesis in enumerate(step.hypotheses, 1)
        ],
    )
    tokens = "1 token" if step.length == 1 else f"{step.length} tokens"
    yield _Table(
        f"Step {step.length}: their best continuations, of {tokens}, length "
        f"penalty {step.length_penalty:.3f}",
        ("from", "token", "P", "log P", "score", "becomes"),
        [_continuation(one) for one in step.continuations],
    )


def _continuation(one: Continuation) -> tuple[str, ...]:
    return (
        str(one.parent + 1),
        one.token.piece,
        f"{one.token.probability:.3f}",
        f"{one.log_prob:.2f}",
        f"{one.score:.3f}" if one.fate == "finished" else "",
        one.fate,
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


def _pieces(hypothesis: Hypothesis) -> str:
    text = " ".join(hypothesis.pieces)
    return text if len(text) <= _WIDTH else "…" + text[1 - _WIDTH :]


def _tokens(tokens: Sequence[Token]) -> str:
    return "  ".join(f"{one.piece} {one.probability:.3f}" for one in tokens)


def _text_table(table: _Table) -> str:
    rows = [table.header, *table.rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [table.title] if table.title else []
    for row in rows:
        cells = (
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        )
        lines.append(f"  {'  '.join(cells)}".rstrip())
    return "\n".join(lines)


def _markdown_table(table: _Table) -> str:
    rows = [table.header, ("---",) * len(table.header), *table.rows]
    lines = [f"**{table.title}**", ""] if table.title else []
    for row in rows:
        lines.append(f"| {' | '.join(map(_escape, row))} |")
    return "\n".join(lines)


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
