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
from keras_transformer.decoding.search import BeamSearch
from keras_transformer.inference.translator import Translator
from keras_transformer.showing.pages import Page
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import POSITIVE_INTEGER
from keras_transformer.text import Tokenizer

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


class Step(NamedTuple):
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
    steps: list[Step]  # in order, at least one

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
        from keras_transformer.showing.tracing.page import as_page

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
    if not POSITIVE_INTEGER.accepts(num_tokens):
        raise InputError(
            f"num_tokens must be {POSITIVE_INTEGER.expected}. Received: "
            f"num_tokens={num_tokens!r}"
        )
    if not isinstance(translator.search, BeamSearch):
        raise InputError(
            "A trace shows a greedy search and a beam search. Received: "
            f"search={translator.search}"
        )
    source, text = translator.tensors.one_source(text, "A search is traced")
    greedy = dataclasses.replace(translator.search, beam_size=1)
    recorder = _Recorder(translator, source, text, num_tokens)
    return Trace(
        text,
        translator.tokenizer.pieces(source[0]),
        recorder.record(greedy),
        recorder.record(translator.search),
    )


class _Recorder(NamedTuple):
    translator: Translator
    source: tf.Tensor  # [1, S]
    text: str
    num_tokens: int

    @property
    def tokenizer(self) -> Tokenizer:
        return self.translator.tokenizer

    def record(self, search: BeamSearch) -> SearchTrace:
        """Takes the steps of a search one by one."""
        ids = self.translator.tensors.ids
        searcher, state = ids.beam_search_steps(self.source, search)
        steps = []
        while searcher.can_win(state)[0]:
            log_probs, before = searcher.predict(state)
            candidates = searcher.candidates(before, log_probs)
            state = searcher.advance(before, candidates)
            steps.append(
                self._step(searcher, before, log_probs, candidates, state)
            )
        return SearchTrace(search, int(state.constraints.max_lengths[0]), steps)

    def _step(
        self,
        searcher: BeamSearcher,
        before: BeamState,
        log_probs: tf.Tensor,
        candidates: Candidates,
        after: BeamState,
    ) -> Step:
        length, penalty = _penalty(after.index, searcher)
        live = np.isfinite(before.live_log_probs[0].numpy())
        ids = before.live_ids[0].numpy()
        rows = log_probs[0].numpy()
        hypotheses = [
            Hypothesis(
                self._pieces([searcher.bos_id, *ids[slot]]),
                float(before.live_log_probs[0, slot]),
                self._best(rows[slot]),
            )
            for slot in np.flatnonzero(live)
        ]
        tokens, parents, totals = (x[0].numpy() for x in candidates)
        continuations = [
            Continuation(
                int(parents[i]),
                self._token(rows[parents[i]], tokens[i]),
                float(totals[i]),
                float(totals[i]) / penalty,
                fate,
            )
            for i, fate in enumerate(_fates(searcher, candidates, after))
            if np.isfinite(totals[i])
        ]
        return Step(
            length,
            penalty,
            hypotheses,
            continuations,
            self._finished(searcher, after),
        )

    def _finished(
        self, searcher: BeamSearcher, state: BeamState
    ) -> list[Finished]:
        scores = state.finished_scores[0].numpy()
        lengths = state.finished_lengths[0].numpy()
        found = []
        for slot in np.flatnonzero(np.isfinite(scores)):
            ids = state.finished_ids[0, slot, : lengths[slot]]
            _, penalty = _penalty(lengths[slot], searcher)
            score = float(scores[slot])
            text = self.translator.tensors.one_output(ids, self.text)
            found.append(
                Finished(
                    self._pieces(ids), text, score * penalty, penalty, score
                )
            )
        return found

    def _best(self, log_probs: np.ndarray) -> list[Token]:
        order = np.argsort(-log_probs, kind="stable")[: self.num_tokens]
        return [self._token(log_probs, i) for i in order]

    def _token(self, log_probs: np.ndarray, i: int) -> Token:
        (piece,) = self._pieces([i])
        return Token(piece, float(np.exp(log_probs[i])))

    def _pieces(self, ids: Any) -> list[str]:
        return self.tokenizer.pieces(tf.constant(ids, tf.int32))


def _penalty(length: Any, searcher: BeamSearcher) -> tuple[int, float]:
    return int(length), float(length_penalty(length, searcher.alpha))


def _fates(
    searcher: BeamSearcher, candidates: Candidates, after: BeamState
) -> list[Fate]:
    """Returns what became of each candidate, best first."""
    tokens, parents, _ = (x[0].numpy() for x in candidates)
    live = {
        (after.last_ids[0, slot].numpy(), after.parents[0, slot].numpy())
        for slot in np.flatnonzero(np.isfinite(after.live_log_probs[0]))
    }
    fates: list[Fate] = []
    for rank, candidate in enumerate(zip(tokens, parents, strict=True)):
        is_end = candidate[0] == searcher.eos_id
        if is_end and rank < searcher.beam_size:
            fates.append("finished")
        else:
            fates.append("live" if candidate in live else "pruned")
    return fates
