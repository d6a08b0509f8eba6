"""A trace as text for a terminal."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keras_transformer.plotting.tracing import (
        LiveHypothesis,
        SearchTrace,
        Trace,
        TraceStep,
    )

_WIDTH = 40  # characters of a hypothesis; of a longer one the end is shown

_Row = dict[str, str]  # cells by the names of their columns


def trace_text(trace: "Trace") -> str:
    """Returns a trace as text, with aligned columns."""
    search = trace.beam.search
    parts = [
        _printable(f"Source: {trace.source}"),
        _printable(f"The encoder reads: {' '.join(trace.source_pieces)}"),
        "Greedy search",
        _table(_greedy_rows(trace.greedy)),
        _ending(trace.greedy),
    ]
    if search.beam_size > 1:
        parts.append(
            f"Beam search with {search.beam_size} hypotheses, "
            f"alpha {search.alpha:g}"
        )
        for step in trace.beam.steps:
            parts.extend(_step_tables(step))
        parts.append(_ending(trace.beam))
    formula = f"score = log P / length penalty, {search.formula} of n tokens"
    parts += ["Results", f"{formula}\n{_table(_result_rows(trace))}"]
    return "\n\n".join(parts) + "\n"


def _greedy_rows(search: "SearchTrace") -> list[_Row]:
    """Returns a row per step: a greedy search has one hypothesis."""
    return [
        {
            "step": str(number),
            "decoder input": _pieces(step.hypotheses[0]),
            "most probable": _most_probable(step.hypotheses[0]),
            "chosen": step.continuations[0].token.piece,
            "log P": f"{step.continuations[0].log_prob:.2f}",
        }
        for number, step in enumerate(search.steps, 1)
    ]


def _step_tables(step: "TraceStep") -> Iterator[str]:
    """Yields what the model predicts, and what the search does with it."""
    rows = [
        {
            "": str(number),
            "decoder input": _pieces(hypothesis),
            "log P": f"{hypothesis.log_prob:.2f}",
            "most probable": _most_probable(hypothesis),
        }
        for number, hypothesis in enumerate(step.hypotheses, 1)
    ]
    yield f"Step {step.length}: the live hypotheses\n{_table(rows)}"
    rows = [
        {
            "from": str(continuation.parent + 1),
            "token": continuation.token.piece,
            "P": f"{continuation.token.probability:.3f}",
            "log P": f"{continuation.log_prob:.2f}",
            "score": f"{continuation.score:.3f}"
            if continuation.fate == "finished"
            else "",
            "becomes": continuation.fate,
        }
        for continuation in step.continuations
    ]
    tokens = "1 token" if step.length == 1 else f"{step.length} tokens"
    yield (
        f"Step {step.length}: their best continuations, of {tokens}, length "
        f"penalty {step.length_penalty:.3f}\n{_table(rows)}"
    )


def _result_rows(trace: "Trace") -> list[_Row]:
    """Returns the results of the greedy search, then of the beam search."""
    results = [("greedy", result) for result in trace.greedy.finished]
    if trace.beam.search.beam_size > 1:
        results += [
            (f"beam {number}", result)
            for number, result in enumerate(trace.beam.finished, 1)
        ]
    return [
        {
            "": name,
            "translation": result.text,
            "tokens": str(len(result.pieces)),
            "log P": f"{result.log_prob:.2f}",
            "length penalty": f"{result.length_penalty:.3f}",
            "score": f"{result.score:.3f}",
        }
        for name, result in results
    ]


def _ending(search: "SearchTrace") -> str:
    if search.at_max_length:
        return f"Ended at the maximum length of {search.max_length} tokens."
    if search.search.beam_size == 1:
        return "Ended with the end token."
    return (
        f"Ended after {len(search.steps)} steps: no live hypothesis can score "
        "better than the finished ones."
    )


def _pieces(hypothesis: "LiveHypothesis") -> str:
    text = " ".join(hypothesis.pieces)
    return text if len(text) <= _WIDTH else "…" + text[1 - _WIDTH :]


def _most_probable(hypothesis: "LiveHypothesis") -> str:
    return "  ".join(
        f"{token.piece} {token.probability:.3f}" for token in hypothesis.best
    )


def _table(rows: list[_Row]) -> str:
    widths = {
        name: max(len(name), *(len(row[name]) for row in rows))
        for name in rows[0]
    }
    header = {name: name for name in widths}
    return "\n".join(
        "  ".join(
            ["", *(row[name].ljust(width) for name, width in widths.items())]
        ).rstrip()
        for row in [header, *rows]
    )


def _printable(text: str) -> str:
    """Returns text without characters that control a terminal."""
    return "".join(
        character
        if character.isprintable()
        else character.encode("unicode_escape").decode()
        for character in text
    )
