"""A trace as text for a terminal."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keras_transformer.plotting import tracing

_WIDTH = 40  # characters of a hypothesis; of a longer one the end is shown


def trace_text(trace: "tracing.Trace") -> str:
    """Returns a trace as text, with aligned columns."""
    search = trace.beam.search
    parts = [
        _printable(f"Source: {trace.source}"),
        _printable(f"The encoder reads: {' '.join(trace.source_pieces)}"),
        "Greedy search",
        _greedy_table(trace.greedy),
        _ending(trace.greedy),
    ]
    if search.beam_size > 1:
        size = f"{search.beam_size} hypotheses"
        parts.append(f"Beam search with {size}, alpha {search.alpha:g}")
        for step in trace.beam.steps:
            parts += [_hypotheses_table(step), _continuations_table(step)]
        parts.append(_ending(trace.beam))
    formula = f"score = log P / length penalty, {search.formula} of n tokens"
    parts += ["Results", f"{formula}\n{_results_table(trace)}"]
    return "\n\n".join(parts) + "\n"


def _greedy_table(search: "tracing.SearchTrace") -> str:
    """Returns a row per step: a greedy search has one hypothesis."""
    rows = [["step", "decoder input", "most probable", "chosen", "log P"]]
    for number, step in enumerate(search.steps, 1):
        (hypothesis,), chosen = step.hypotheses, step.continuations[0]
        pieces, predicted = _pieces(hypothesis), _predicted(hypothesis)
        piece, log_prob = chosen.token.piece, f"{chosen.log_prob:.2f}"
        rows.append([str(number), pieces, predicted, piece, log_prob])
    return _table(rows)


def _hypotheses_table(step: "tracing.TraceStep") -> str:
    rows = [["", "decoder input", "log P", "most probable"]]
    for number, hypothesis in enumerate(step.hypotheses, 1):
        log_prob = f"{hypothesis.log_prob:.2f}"
        pieces, predicted = _pieces(hypothesis), _predicted(hypothesis)
        rows.append([str(number), pieces, log_prob, predicted])
    return f"Step {step.length}: the live hypotheses\n{_table(rows)}"


def _continuations_table(step: "tracing.TraceStep") -> str:
    rows = [["from", "token", "P", "log P", "score", "becomes"]]
    for continuation in step.continuations:
        is_finished = continuation.fate == "finished"
        row = [
            str(continuation.parent + 1),
            continuation.token.piece,
            f"{continuation.token.probability:.3f}",
            f"{continuation.log_prob:.2f}",
            f"{continuation.score:.3f}" if is_finished else "",
            continuation.fate,
        ]
        rows.append(row)
    tokens = "1 token" if step.length == 1 else f"{step.length} tokens"
    return (
        f"Step {step.length}: their best continuations, of {tokens}, length "
        f"penalty {step.length_penalty:.3f}\n{_table(rows)}"
    )


def _results_table(trace: "tracing.Trace") -> str:
    results = [("greedy", result) for result in trace.greedy.finished]
    if trace.beam.search.beam_size > 1:
        for number, result in enumerate(trace.beam.finished, 1):
            results.append((f"beam {number}", result))
    rows = [["", "translation", "tokens", "log P", "length penalty", "score"]]
    for name, result in results:
        log_prob, score = f"{result.log_prob:.2f}", f"{result.score:.3f}"
        size, penalty = str(len(result.pieces)), f"{result.length_penalty:.3f}"
        rows.append([name, result.text, size, log_prob, penalty, score])
    return _table(rows)


def _ending(search: "tracing.SearchTrace") -> str:
    if search.at_max_length:
        return f"Ended at the maximum length of {search.max_length} tokens."
    if search.search.beam_size == 1:
        return "Ended with the end token."
    reason = {
        "exact": "no live hypothesis can be better than the translations",
        "finished": f"{search.search.beam_size} hypotheses are finished",
        "heuristic": "no live hypothesis is better now than the finished ones",
    }[search.search.stop]
    return f"Ended after {len(search.steps)} steps: {reason}."


def _pieces(hypothesis: "tracing.LiveHypothesis") -> str:
    text = " ".join(hypothesis.pieces)
    return text if len(text) <= _WIDTH else "…" + text[1 - _WIDTH :]


def _predicted(hypothesis: "tracing.LiveHypothesis") -> str:
    best = (f"{x.piece} {x.probability:.3f}" for x in hypothesis.best)
    return "  ".join(best)


def _table(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(["", *map(str.ljust, row, widths)]) for row in rows)
    return "\n".join(map(str.rstrip, lines))


def _printable(text: str) -> str:
    """Returns text without characters that control a terminal."""
    return "".join(
        character
        if character.isprintable()
        else character.encode("unicode_escape").decode()
        for character in text
    )
