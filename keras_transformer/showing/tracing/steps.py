"""Records every step of a search, as plain Python values.

`tables.py` and `page.py` show what is recorded here.
"""

import dataclasses
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
from keras_transformer.inference.translator import Translator
from keras_transformer.showing.pages import Page
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import POSITIVE_INTEGER, check_values

Fate = Literal["live", "finished", "pruned"]


class Token(NamedTuple):
    """A token that the model may write next."""

    piece: str  # as in the vocabulary
    probability: float  # P(token | source, hypothesis)


class Hypothesis(NamedTuple):
    """A live hypothesis, and what the model would add to it."""

    pieces: list[str]  # what the decoder reads, "<s>" first
    log_prob: float  # log P, a natural logarithm
    best: list[Token]  # the most probable next tokens


class Continuation(NamedTuple):
    """One of the 2K best hypotheses that are one token longer."""

    parent: int  # index of the hypothesis that it continues
    token: Token  # that it adds
    log_prob: float  # log P, with this token
    score: float  # log P / length penalty: what it would have if it ended
    fate: Fate  # what became of it


class Finished(NamedTuple):
    """A hypothesis with an end token."""

    pieces: list[str]  # the end token last
    text: str  # the pieces as text
    log_prob: float  # log P
    length_penalty: float  # ((5 + n) / 6)^alpha; n is the number of pieces
    score: float  # log P / length penalty


class TraceStep(NamedTuple):
    """One step of a search."""

    length: int  # tokens of the hypotheses after this step
    length_penalty: float  # ((5 + length) / 6)^alpha
    hypotheses: list[Hypothesis]  # live before this step, best first
    continuations: list[Continuation]  # best first
    finished: list[Finished]  # the K best so far, best first


class SearchTrace(NamedTuple):
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
        from keras_transformer.showing.tracing.tables import as_text

        return as_text(self)

    def to_markdown(self) -> str:
        """Returns the trace as Markdown, with a table for each step."""
        from keras_transformer.showing.tracing.tables import as_markdown

        return as_markdown(self)

    def to_html(self, hypothesis: int = 0) -> Page:
        """Returns a page, on which the beam is drawn as a tree.

        Args:
            hypothesis: Which translation is chosen in it, from 0 for the best.

        Raises:
            InputError: If the search found no such translation.
        """
        from keras_transformer.showing.tracing.writing import as_page

        return as_page(self, hypothesis)


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
    greedy, beam = (
        _record(translator, ids, text, num_tokens, search)
        for search in (
            dataclasses.replace(translator.search, beam_size=1),
            translator.search,
        )
    )
    pieces = translator.tokenizer.source.pieces(ids[0].numpy())
    return Trace(text, pieces, greedy, beam)


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

    length = int(after.index)
    live_log_probs = before.live_log_probs[0].numpy()
    hypotheses = [
        Hypothesis(
            pieces([searcher.bos_id, *before.live_ids[0, slot]]),
            float(live_log_probs[slot]),
            list(map(token, now.best[slot], now.best_log_probs[slot])),
        )
        for slot in np.flatnonzero(np.isfinite(live_log_probs))
    ]
    continuations = [
        Continuation(
            int(now.parents[i]),
            token(now.tokens[i], now.added[i]),
            float(now.log_probs[i]),
            float(now.log_probs[i]) / penalty(length),
            fate,
        )
        for i, fate in enumerate(_fates(searcher, now, after))
        if np.isfinite(now.log_probs[i])
    ]
    finished = []
    for slot in np.flatnonzero(np.isfinite(after.finished_scores[0])):
        count = int(after.finished_lengths[0, slot])
        ids = after.finished_ids[0, slot, :count]
        score, divisor = float(after.finished_scores[0, slot]), penalty(count)
        output = translator.pipeline.output_text(ids, text)
        finished.append(
            Finished(pieces(ids), output, score * divisor, divisor, score)
        )
    return TraceStep(
        length, penalty(length), hypotheses, continuations, finished
    )


def _fates(
    searcher: BeamSearcher, now: _History, after: BeamState
) -> list[Fate]:
    """Returns what became of each candidate, best first."""
    is_live = np.isfinite(after.live_log_probs[0])
    last_ids, parents = (
        x[0].numpy()[is_live] for x in (after.last_ids, after.parents)
    )
    live = set(zip(last_ids, parents, strict=True))
    fates: list[Fate] = []
    for rank, candidate in enumerate(zip(now.tokens, now.parents, strict=True)):
        if candidate[0] == searcher.eos_id and rank < searcher.beam_size:
            fates.append("finished")
        else:
            fates.append("live" if candidate in live else "pruned")
    return fates
