"""Greedy and beam search, shown step by step."""

import dataclasses
import os
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from keras_transformer.decoding.beam import BeamSearcher, BeamState, Candidates
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.inference.translator import Translator
from keras_transformer.plotting.html_pages import HtmlPage, render_page
from keras_transformer.support import fields
from keras_transformer.support.files import atomic_write, check_output


@dataclasses.dataclass(frozen=True)
class Token:
    """A token that the model may write next."""

    piece: str  # as in the vocabulary
    probability: float  # P(token | source, hypothesis)


@dataclasses.dataclass(frozen=True)
class LiveHypothesis:
    """A hypothesis without end token, and its most probable next tokens."""

    pieces: list[str]  # "<s>" first
    log_prob: float  # log P, a natural logarithm
    best: list[Token]


@dataclasses.dataclass(frozen=True)
class Continuation:
    """One of the 2K best hypotheses that are one token longer."""

    parent: int  # index of the hypothesis that it continues
    token: Token  # the new token
    log_prob: float  # log P, including this token
    score: float  # log P / length penalty, as if it ended here
    fate: Literal["live", "finished", "pruned"]


@dataclasses.dataclass(frozen=True)
class FinishedHypothesis:
    """A hypothesis with an end token."""

    pieces: list[str]  # the end token last
    text: str  # the pieces as text
    log_prob: float  # log P
    length_penalty: float
    score: float  # log P / length penalty


@dataclasses.dataclass(frozen=True)
class TraceStep:
    """One step of a search."""

    length: int  # tokens of the hypotheses after this step
    length_penalty: float  # of this length
    hypotheses: list[LiveHypothesis]  # live before this step, best first
    continuations: list[Continuation]  # best first
    finished: list[FinishedHypothesis]  # the K best so far, best first


@dataclasses.dataclass(frozen=True)
class SearchTrace:
    """All steps of a search."""

    search: BeamSearch  # its settings
    max_length: int  # tokens that a hypothesis may have
    steps: list[TraceStep]  # in order, at least one

    @property
    def finished(self) -> list[FinishedHypothesis]:
        """The finished hypotheses, best first.

        Only those that the translator returns are certain to be the best.
        """
        return self.steps[-1].finished


@dataclasses.dataclass(frozen=True)
class Trace:
    """A text's greedy search and beam search, step by step."""

    source: str  # the text
    source_pieces: list[str]  # the end token last
    greedy: SearchTrace  # the same search with one hypothesis
    beam: SearchTrace  # the translator's search

    def to_html(self, hypothesis: int = 0) -> HtmlPage:
        """Returns a page that draws the beam as a tree.

        Args:
            hypothesis: The selected translation, from 0 for the best.

        Raises:
            InputError: If the search did not find that many translations.
        """
        is_found = fields.integer_from(0, len(self.beam.finished) - 1)
        fields.check_values(is_found, hypothesis=hypothesis)
        data = dataclasses.asdict(self)
        data |= {"hypothesis": hypothesis, "formula": self.beam.search.formula}
        title = f"Search: {self.source}"
        return render_page(__package__, "trace.html", title, data)

    def save(self, path: str | os.PathLike) -> None:
        """Writes the page to a file ending in `.html`, atomically.

        Raises:
            InputError: If the suffix or the folder is wrong.
        """
        check_output(path, (".html",))
        with atomic_write(path) as partial:
            partial.write_text(self.to_html(), "utf-8")


def trace(translator: Translator, text: Any, num_tokens: int = 5) -> Trace:
    """Translates a text, and records every step of the search.

    The steps are the same as in `translator.translate`, followed by a greedy
    search with the same limits.

    Args:
        translator: A translator with a `BeamSearch`.
        text: One text, as in `Translator.translate`.
        num_tokens: The number of most probable tokens to record for each
            hypothesis.

    Raises:
        InputError: If there is not exactly one text, the text is empty or too
            long, `num_tokens` is not a positive integer, or the translator
            does not search in this process with a beam.

    Example:

    ```python
    translator = kt.open_translator("runs/demo")
    kt.trace(translator, "I am a student.").save("trace.html")
    ```
    """
    fields.check_values(fields.POSITIVE_INTEGER, num_tokens=num_tokens)
    translator.check_trace()
    text, ids = translator.read_one(text)
    limit = int(translator.limits([ids], [[]])[0])
    ids = [*ids, translator.tokenizer.source_eos_id]
    num_tokens = min(num_tokens, translator.tokenizer.vocab_size)
    recorder = _Recorder(translator, text, ids, limit, num_tokens)
    greedy = dataclasses.replace(translator.search, beam_size=1)
    return Trace(
        text,
        translator.tokenizer.source.pieces(ids),
        recorder.run(greedy, 1),
        recorder.run(translator.search, translator.num_translations),
    )


@dataclasses.dataclass(frozen=True)
class _Recorder:
    """Runs a search for one source, and records its steps."""

    translator: Translator
    text: str
    ids: list[int]  # the end token last
    limit: int  # tokens of a hypothesis
    num_tokens: int

    def run(self, search: BeamSearch, count: int) -> SearchTrace:
        searcher, state = self.translator.engine.beam_search_steps(
            self.ids, self.limit, search, count
        )
        steps = []
        while searcher.can_win(state)[0]:
            log_probs, before = searcher.predict(state)
            candidates = searcher.candidates(before, log_probs)
            state = searcher.advance(before, candidates)
            best = tf.math.top_k(log_probs, self.num_tokens)
            states = (x._replace(cache=()) for x in (before, state))
            arrays = (*states, candidates, *best)
            arrays = tf.nest.map_structure(np.asarray, arrays)
            steps.append(self._step(searcher, *arrays))
        return SearchTrace(search, self.limit, steps)

    def _step(
        self,
        searcher: BeamSearcher,
        before: BeamState,
        after: BeamState,
        candidates: Candidates,
        log_probs: np.ndarray,
        tokens: np.ndarray,
    ) -> TraceStep:
        """Returns a step; `log_probs` and `tokens` are `[1, K, count]`."""
        hypotheses = [
            LiveHypothesis(
                self._pieces([searcher.ids.bos_id, *before.live_ids[0, slot]]),
                float(before.live_log_probs[0, slot]),
                list(map(self._token, tokens[0, slot], log_probs[0, slot])),
            )
            for slot in np.flatnonzero(np.isfinite(before.live_log_probs))
        ]
        length = int(after.index)
        penalty = _penalty(searcher, length)
        is_live = np.isfinite(after.live_log_probs)
        last_ids, parents = after.last_ids[is_live], after.parents[is_live]
        live = set(zip(last_ids, parents, strict=True))
        continuations = []
        for rank in np.flatnonzero(np.isfinite(candidates.log_probs)):
            token_id, parent, log_prob = (x[0, rank] for x in candidates)
            fate = "live" if (token_id, parent) in live else "pruned"
            is_best = rank < searcher.settings.beam_size
            if is_best and token_id == searcher.ids.eos_id:
                fate = "finished"
            parent_log_prob = before.live_log_probs[0, parent]
            token = self._token(token_id, log_prob - parent_log_prob)
            scores = float(log_prob), float(log_prob) / penalty
            continuation = Continuation(int(parent), token, *scores, fate)
            continuations.append(continuation)
        finished = self._finished(searcher, after)
        return TraceStep(length, penalty, hypotheses, continuations, finished)

    def _finished(
        self, searcher: BeamSearcher, state: BeamState
    ) -> list[FinishedHypothesis]:
        finished = []
        for slot in np.flatnonzero(np.isfinite(state.finished_scores)):
            ids = state.finished_ids[0, slot, : state.finished_lengths[0, slot]]
            translator, pieces = self.translator, self._pieces(ids)
            task, tokenizer = translator.task, translator.tokenizer
            text, _ = task.decode(tokenizer, ids, self.text)
            penalty = _penalty(searcher, len(ids))
            score = float(state.finished_scores[0, slot])
            scores = score * penalty, penalty, score
            finished.append(FinishedHypothesis(pieces, text, *scores))
        return finished

    def _pieces(self, ids: Any) -> list[str]:
        return self.translator.tokenizer.target.pieces(np.asarray(ids))

    def _token(self, token_id: int, log_prob: float) -> Token:
        return Token(self._pieces([token_id])[0], float(np.exp(log_prob)))


def _penalty(searcher: BeamSearcher, length: int) -> float:
    return float(searcher.settings.penalty(np.float32(length)))
