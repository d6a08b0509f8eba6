"""Greedy and beam search, shown step by step."""

import dataclasses
import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from keras_transformer.decoding import (
    BeamSearcher,
    BeamState,
    Candidates,
)
from keras_transformer.decoding.loop import growing_shapes
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.inference.translator import Translator, check_hypothesis
from keras_transformer.plotting.pages import Page, render
from keras_transformer.plotting.trace_tables import as_markdown, as_text
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import POSITIVE_INTEGER, check_values
from keras_transformer.support.files import atomic_write, check_output

__all__ = ["Trace", "save_trace", "trace"]


@dataclasses.dataclass(frozen=True)
class Token:
    """A token that the model may write next."""

    piece: str  # as in the vocabulary
    probability: float  # P(token | source, hypothesis)


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """A live hypothesis, and what the model would add to it."""

    pieces: list[str]  # what the decoder reads, "<s>" first
    log_prob: float  # log P, a natural logarithm
    best: list[Token]  # the most probable next tokens


@dataclasses.dataclass(frozen=True)
class Continuation:
    """One of the 2K best hypotheses that are one token longer."""

    parent: int  # index of the hypothesis that it continues
    token: Token  # that it adds
    log_prob: float  # log P, with this token
    score: float  # log P / length penalty: what it would have if it ended
    fate: Literal["live", "finished", "pruned"]  # what became of it


@dataclasses.dataclass(frozen=True)
class Finished:
    """A hypothesis with an end token."""

    pieces: list[str]  # the end token last
    text: str  # the pieces as text
    log_prob: float  # log P
    length_penalty: float  # of so many pieces
    score: float  # log P / length penalty


@dataclasses.dataclass(frozen=True)
class TraceStep:
    """One step of a search."""

    length: int  # tokens of the hypotheses after this step
    length_penalty: float  # of this length
    hypotheses: list[Hypothesis]  # live before this step, best first
    continuations: list[Continuation]  # best first
    finished: list[Finished]  # the K best so far, best first


@dataclasses.dataclass(frozen=True)
class SearchTrace:
    """All steps of a search."""

    search: BeamSearch  # its settings
    max_length: int  # tokens that a hypothesis may have
    steps: list[TraceStep]  # in order, at least one

    @property
    def finished(self) -> list[Finished]:
        """The hypotheses that the search returns, best first."""
        return self.steps[-1].finished

    @property
    def at_max_length(self) -> bool:
        """Whether the search ended there; if not, no live one could win."""
        return self.steps[-1].length == self.max_length


@dataclasses.dataclass(frozen=True)
class Trace:
    """A text's greedy search and beam search, step by step.

    `str(trace)` shows them as text.
    """

    source: str  # the text
    source_pieces: list[str]  # what the encoder reads, the end token last
    greedy: SearchTrace  # the same search with one hypothesis
    beam: SearchTrace  # the search of the translator

    def __str__(self) -> str:
        return as_text(self)

    def to_markdown(self) -> str:
        """Returns the trace as Markdown, with a table for each step."""
        return as_markdown(self)

    def to_html(self, hypothesis: int = 0) -> Page:
        """Returns a page, on which the beam is drawn as a tree.

        Args:
            hypothesis: Which translation is chosen in it, from 0 for the best.

        Raises:
            InputError: If the search found no such translation.
        """
        check_hypothesis(hypothesis, len(self.beam.finished))
        data = dataclasses.asdict(self)
        data |= {"hypothesis": hypothesis, "formula": self.beam.search.formula}
        return render("trace", f"Search: {self.source}", data)


_FORMATS = {
    ".html": Trace.to_html,
    ".md": Trace.to_markdown,
    ".txt": Trace.__str__,
}


def save_trace(trace: Trace, path: str | os.PathLike) -> None:
    """Writes a trace, atomically.

    Args:
        trace: From `keras_transformer.trace`.
        path: A file ending in `.html`, `.md` or `.txt`.

    Raises:
        InputError: If the file's name has another ending, or its folder does
            not exist.
    """
    check_output(path, _FORMATS)
    text = _FORMATS[Path(path).suffix.lower()](trace)
    with atomic_write(path) as partial:
        partial.write_text(text, "utf-8")


def trace(translator: Translator, text: Any, num_tokens: int = 5) -> Trace:
    """Translates a text, and records every step of the search.

    The steps are those of `translator.translate`, and those of a greedy
    search with the same limits.

    Args:
        translator: A translator with a `BeamSearch`.
        text: One text, as in `Translator.translate`.
        num_tokens: How many of the most probable tokens to record for each
            hypothesis.

    Raises:
        InputError: If there is not exactly one text, it has no tokens or more
            than the model reads, `num_tokens` is not a positive integer, or
            the translator samples.

    Example:

    ```python
    print(kt.trace(kt.Translator.open("runs/demo"), "I am a student."))
    ```
    """
    check_values(POSITIVE_INTEGER, num_tokens=num_tokens)
    if not isinstance(translator.search, BeamSearch):
        raise InputError(
            "A trace shows a greedy search and a beam search. Received: "
            f"search={translator.search}"
        )
    ids, text = translator.one_source(text, "A search is traced")
    ids, _, _ = translator.pipeline.with_end(ids)
    pieces = translator.tokenizer.source.pieces(ids[0].numpy())
    greedy = dataclasses.replace(translator.search, beam_size=1)
    searches = (
        _record(translator, ids, text, num_tokens, search)
        for search in (greedy, translator.search)
    )
    return Trace(text, pieces, *searches)


def _record(
    translator: Translator,
    ids: tf.Tensor,
    text: str,
    num_tokens: int,
    search: BeamSearch,
) -> SearchTrace:
    """Runs a search as `translate` does, and takes the same steps again."""
    pipeline = translator.pipeline
    count = min(num_tokens, translator.tokenizer.vocab_size)

    def run(source: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
        searcher, state = pipeline.beam_search_steps(source, search)
        return _history(searcher, state, count), state.constraints.max_lengths

    # As a graph, since another program rounds differently.
    compiled = translator.compiled(
        ("trace", search, count), run, [tf.TensorSpec([1, None], tf.int32)]
    )
    history, max_lengths = compiled(ids)
    searcher = BeamSearcher(None, search, **pipeline.special_ids)
    state = searcher.start((), max_lengths, None)
    steps = []
    columns = (tf.unstack(tensor, axis=1) for tensor in history)
    for *found, values, tokens in zip(*columns, strict=True):
        before, found = state, Candidates(*found)
        state = searcher.advance(before, found)
        arrays = tf.nest.map_structure(
            np.asarray, (before, found, values, tokens, state)
        )
        steps.append(_step(translator, searcher, text, *arrays))
    return SearchTrace(search, int(max_lengths[0]), steps)


def _history(
    searcher: BeamSearcher, state: BeamState, count: int
) -> list[tf.Tensor]:
    """Takes all steps of a search, of K hypotheses.

    Returns the fields of the `Candidates` of each step, `[1, t, 2K]`, then
    log P and ids of the most probable tokens of each hypothesis,
    `[1, t, K, count]`.
    """

    def extend(
        state: BeamState, past: list[tf.Tensor]
    ) -> tuple[BeamState, list[tf.Tensor]]:
        log_probs, state = searcher.predict(state)
        found = searcher.candidates(state, log_probs)
        now = [*found, *tf.math.top_k(log_probs, count)]
        return searcher.advance(state, found), tf.nest.map_structure(
            lambda x, y: tf.concat([x, y[:, None]], axis=1), past, now
        )

    k = searcher.settings.beam_size
    shapes = [[1, 0, 2 * k]] * 3 + [[1, 0, k, count]] * 2
    kinds = (tf.int32, tf.int32, tf.float32, tf.float32, tf.int32)
    variables = state, list(map(tf.zeros, shapes, kinds))
    _, history = tf.while_loop(
        lambda state, _: searcher.can_win(state)[0],
        extend,
        variables,
        shape_invariants=growing_shapes(variables),
    )
    return history


def _step(
    translator: Translator,
    searcher: BeamSearcher,
    text: str,
    before: BeamState,
    found: Candidates,
    values: np.ndarray,
    tokens: np.ndarray,
    after: BeamState,
) -> TraceStep:
    """Describes a step by the states before and after it, and its history."""

    def pieces(ids: Any) -> list[str]:
        return translator.tokenizer.target.pieces(np.asarray(ids))

    def token(token_id: int, log_prob: float) -> Token:
        return Token(pieces([token_id])[0], float(np.exp(log_prob)))

    def penalty(length: int) -> float:
        return float(searcher.settings.penalty(np.float32(length)))

    length = int(after.index)
    hypotheses = [
        Hypothesis(
            pieces([searcher.bos_id, *before.live_ids[0, slot]]),
            float(before.live_log_probs[0, slot]),
            list(map(token, tokens[0, slot], values[0, slot])),
        )
        for slot in np.flatnonzero(np.isfinite(before.live_log_probs))
    ]
    is_live = np.isfinite(after.live_log_probs)
    live = set(
        zip(after.last_ids[is_live], after.parents[is_live], strict=True)
    )
    continuations = []
    for rank in np.flatnonzero(np.isfinite(found.log_probs)):
        token_id, parent, log_prob = (field[0, rank] for field in found)
        fate = "live" if (token_id, parent) in live else "pruned"
        if token_id == searcher.eos_id and rank < searcher.settings.beam_size:
            fate = "finished"
        added = token(token_id, log_prob - before.live_log_probs[0, parent])
        log_prob = float(log_prob)
        score = log_prob / penalty(length)
        continuations.append(
            Continuation(int(parent), added, log_prob, score, fate)
        )
    finished = []
    for slot in np.flatnonzero(np.isfinite(after.finished_scores)):
        ids = after.finished_ids[0, slot, : after.finished_lengths[0, slot]]
        score = float(after.finished_scores[0, slot])
        divisor = penalty(len(ids))
        output = translator.pipeline.output_text(tf.constant(ids), text)
        finished.append(
            Finished(pieces(ids), output, score * divisor, divisor, score)
        )
    return TraceStep(
        length, penalty(length), hypotheses, continuations, finished
    )
