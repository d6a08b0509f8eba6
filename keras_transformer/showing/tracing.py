"""Greedy and beam search, shown step by step."""

import dataclasses
import os
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import tensorflow as tf

from keras_transformer.decoding import (
    BeamSearcher,
    BeamState,
    Candidates,
    length_penalty,
)
from keras_transformer.decoding.loop import growing_shapes
from keras_transformer.decoding.search import BeamSearch
from keras_transformer.inference.translator import Translator, check_hypothesis
from keras_transformer.showing.pages import Page, render
from keras_transformer.showing.trace_tables import as_markdown, as_text
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import POSITIVE_INTEGER, check_values
from keras_transformer.support.files import atomic_write, check_output

__all__ = ["Trace", "check_trace_path", "save_trace", "trace"]


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
    length_penalty: float  # ((5 + n) / 6)^alpha; n is the number of pieces
    score: float  # log P / length penalty


@dataclasses.dataclass(frozen=True)
class TraceStep:
    """One step of a search."""

    length: int  # tokens of the hypotheses after this step
    length_penalty: float  # ((5 + length) / 6)^alpha
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
        """Whether the search ended at the maximum length.

        Otherwise no live hypothesis could win any more.
        """
        return self.steps[-1].length == self.max_length


@dataclasses.dataclass(frozen=True)
class Trace:
    """A text's greedy search and beam search, step by step.

    `str(trace)` shows them as text.

    Args:
        source: The text.
        source_pieces: What the encoder reads, the end token last.
        greedy: The greedy search.
        beam: The beam search of the translator.
    """

    source: str
    source_pieces: list[str]
    greedy: SearchTrace
    beam: SearchTrace

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
        data = {**dataclasses.asdict(self), "hypothesis": hypothesis}
        return render("trace", f"Search: {self.source}", data)


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


class _History(NamedTuple):
    """What the steps of a search have chosen from, for K hypotheses."""

    tokens: tf.Tensor  # [1, t, 2K] of the candidates
    parents: tf.Tensor  # [1, t, 2K]
    log_probs: tf.Tensor  # [1, t, 2K] log P with the token
    added: tf.Tensor  # [1, t, 2K] log P of the token alone
    best: tf.Tensor  # [1, t, K, n] most probable tokens of each hypothesis
    best_log_probs: tf.Tensor  # [1, t, K, n]


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

    def run(source: tf.Tensor) -> tuple[_History, tf.Tensor]:
        searcher, state = pipeline.beam_search_steps(source, search)
        return _history(searcher, state, count), state.constraints.max_lengths

    # As a graph, since another program rounds differently.
    compiled = translator.compiled(
        ("trace", search, count), run, [tf.TensorSpec([1, None], tf.int32)]
    )
    history, max_lengths = compiled(ids)
    searcher = BeamSearcher(
        None, search.beam_size, search.alpha, **pipeline.special_ids
    )
    state = searcher.start((), max_lengths, None)
    steps = []
    for t in range(history.tokens.shape[1]):
        before, now = state, _History(*(x[:, t] for x in history))
        state = searcher.advance(before, Candidates(*now[:3]))
        now = _History(*(x[0].numpy() for x in now))
        steps.append(_step(translator, searcher, text, before, now, state))
    return SearchTrace(search, int(max_lengths[0]), steps)


def _history(searcher: BeamSearcher, state: BeamState, count: int) -> _History:
    """Takes all steps of a search."""

    def extend(*variables: Any) -> tuple[BeamState, _History]:
        state, past = BeamState(*variables[0]), variables[1]
        log_probs, state = searcher.predict(state)
        found = searcher.candidates(state, log_probs)
        places = tf.stack([found.parents, found.tokens], axis=-1)
        added = tf.gather_nd(log_probs, places, batch_dims=1)
        values, best = tf.math.top_k(log_probs, count)
        now = (*found, added, best, values)
        grown = [
            tf.concat([x, y[:, None]], axis=1)
            for x, y in zip(past, now, strict=True)
        ]
        return searcher.advance(state, found), _History(*grown)

    k = searcher.beam_size
    shapes = [[1, 0, 2 * k]] * 4 + [[1, 0, k, count]] * 2
    kinds = (tf.int32, tf.int32, tf.float32, tf.float32, tf.int32, tf.float32)
    variables = state, _History(*map(tf.zeros, shapes, kinds))
    _, history = tf.while_loop(
        lambda state, _: searcher.can_win(BeamState(*state))[0],
        extend,
        variables,
        shape_invariants=growing_shapes(variables),
    )
    return _History(*history)


def _step(
    translator: Translator,
    searcher: BeamSearcher,
    text: str,
    before: BeamState,
    now: _History,
    after: BeamState,
) -> TraceStep:
    """Describes a step by the states before and after it."""

    def pieces(ids: Any) -> list[str]:
        return translator.tokenizer.target.pieces(np.asarray(ids))

    def token(token_id: int, log_prob: float) -> Token:
        return Token(pieces([token_id])[0], float(np.exp(log_prob)))

    def penalty(length: Any) -> float:
        return float(length_penalty(length, searcher.alpha))

    before, after = (
        tf.nest.map_structure(np.asarray, state) for state in (before, after)
    )
    length = int(after.index)
    hypotheses = [
        Hypothesis(
            pieces([searcher.bos_id, *before.live_ids[0, slot]]),
            float(before.live_log_probs[0, slot]),
            list(map(token, now.best[slot], now.best_log_probs[slot])),
        )
        for slot in np.flatnonzero(np.isfinite(before.live_log_probs))
    ]
    is_live = np.isfinite(after.live_log_probs)
    live = set(
        zip(after.last_ids[is_live], after.parents[is_live], strict=True)
    )
    continuations = []
    for rank, (token_id, parent, log_prob, added) in enumerate(
        zip(*now[:4], strict=True)
    ):
        if not np.isfinite(log_prob):
            continue
        fate = "live" if (token_id, parent) in live else "pruned"
        if token_id == searcher.eos_id and rank < searcher.beam_size:
            fate = "finished"
        continuations.append(
            Continuation(
                int(parent),
                token(token_id, added),
                float(log_prob),
                float(log_prob) / penalty(length),
                fate,
            )
        )
    finished = []
    for slot in np.flatnonzero(np.isfinite(after.finished_scores)):
        ids = after.finished_ids[0, slot, : after.finished_lengths[0, slot]]
        score, divisor = after.finished_scores[0, slot], penalty(len(ids))
        output = translator.pipeline.output_text(tf.constant(ids), text)
        finished.append(
            Finished(
                pieces(ids),
                output,
                float(score) * divisor,
                divisor,
                float(score),
            )
        )
    return TraceStep(
        length, penalty(length), hypotheses, continuations, finished
    )
