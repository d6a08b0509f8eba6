"""Greedy and beam search, shown step by step."""

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.decoding.beam import BeamSearcher, BeamState, Candidates
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.inference.keras_engine import make_step
from keras_transformer.inference.translator import Translator
from keras_transformer.plotting.html_pages import HtmlPage, render_page
from keras_transformer.support import fields
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write, check_output


@dataclasses.dataclass(frozen=True)
class Trace:
    """A text's greedy search and beam search, step by step.

    A search is the dictionary that the page reads as JSON, see `_Recorder`: its
    settings, the maximum length, and the steps in order, at least one.
    """

    source: str  # the text
    source_pieces: list[str]  # the end token last
    greedy: dict[str, Any]  # the same search with one hypothesis
    beam: dict[str, Any]  # the translator's search

    def to_html(self, hypothesis: int = 0) -> HtmlPage:
        """Returns a page that draws the beam as a tree.

        Args:
            hypothesis: The selected translation, from 0 for the best.

        Raises:
            InputError: If the search did not find that many translations.
        """
        finished = self.beam["steps"][-1]["finished"]
        is_found = fields.integer_from(0, len(finished) - 1)
        fields.check_values(is_found, hypothesis=hypothesis)
        formula = BeamSearch(**self.beam["search"]).formula
        data = {**vars(self), "hypothesis": hypothesis, "formula": formula}
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
    if not translator.has_trace:
        raise InputError(
            "A trace needs a run on the TensorFlow backend, and beam search. "
            f"Received: search={translator.search}"
        )
    text, ids = translator.read_one(text)
    limit = int(translator.backend.limits([ids], [[]])[0])
    ids = [*ids, translator.tokenizer.source_eos_id]
    num_tokens = min(num_tokens, translator.tokenizer.vocab_size)
    engine = translator.engine
    source = tf.constant([ids], tf.int32)

    def record(search: BeamSearch, count: int) -> dict[str, Any]:
        step, caches = make_step(engine.models, source, limit, search.beam_size)
        searcher = BeamSearcher(step, search, engine.special_ids, count)
        state = searcher.start(caches, tf.constant([limit], tf.int32), None)
        recorder = _Recorder(searcher, translator, text, num_tokens)
        return {
            "search": dataclasses.asdict(search),
            "max_length": limit,
            "steps": list(recorder.steps(state)),
        }

    return Trace(
        source=text,
        source_pieces=translator.tokenizer.source.pieces(ids),
        greedy=record(dataclasses.replace(translator.search, beam_size=1), 1),
        beam=record(translator.search, translator.num_translations),
    )


@dataclasses.dataclass(frozen=True)
class _Recorder:
    """Takes the steps of a search, and describes each.

    `log_prob` is log P, a natural logarithm; `score` is log P / length penalty.
    """

    searcher: BeamSearcher
    translator: Translator
    text: str
    num_tokens: int

    def steps(self, state: BeamState) -> Iterator[dict[str, Any]]:
        while self.searcher.can_win(state)[0]:
            log_probs, before = self.searcher.predict(state)
            candidates = self.searcher.candidates(before, log_probs)
            state = self.searcher.advance(before, candidates)
            best = _first_row(tf.math.top_k(log_probs, self.num_tokens))
            old = _first_row(before._replace(cache=()))
            new = _first_row(state._replace(cache=()))
            candidates = _first_row(candidates)
            continuations = self._continuations(old, new, candidates)
            yield {
                "length": int(new.index),  # of the hypotheses after this step
                "length_penalty": self._penalty(new.index),
                "hypotheses": self._live(old, best.indices, best.values),
                "continuations": list(continuations),
                "finished": list(self._finished(new)),
            }

    def _live(
        self, state: BeamState, tokens: np.ndarray, log_probs: np.ndarray
    ) -> list[dict[str, Any]]:
        """Describes live hypotheses; `tokens` are the most probable next."""
        bos_id = self.searcher.special_ids.bos_id
        return [
            {
                "pieces": self._pieces([bos_id, *state.live_ids[slot]]),
                "log_prob": float(state.live_log_probs[slot]),
                "best": list(map(self._token, tokens[slot], log_probs[slot])),
            }
            for slot in np.flatnonzero(np.isfinite(state.live_log_probs))
        ]

    def _continuations(
        self, before: BeamState, after: BeamState, candidates: Candidates
    ) -> Iterator[dict[str, Any]]:
        """Describes the 2K best hypotheses that are one token longer."""
        is_live = np.isfinite(after.live_log_probs)
        live_ids = after.last_ids[is_live]
        live = set(zip(live_ids, after.parents[is_live], strict=True))
        for rank in np.flatnonzero(np.isfinite(candidates.log_probs)):
            token_id = candidates.tokens[rank]
            parent = candidates.parents[rank]
            log_prob = candidates.log_probs[rank]
            is_best = rank < self.searcher.settings.beam_size
            fate = "live" if (token_id, parent) in live else "pruned"
            if is_best and token_id == self.searcher.special_ids.eos_id:
                fate = "finished"
            gained = log_prob - before.live_log_probs[parent]
            yield {
                "parent": int(parent),  # index of the hypothesis it continues
                "token": self._token(token_id, gained),
                "log_prob": float(log_prob),
                # As if it ended here.
                "score": float(log_prob) / self._penalty(after.index),
                "fate": fate,
            }

    def _finished(self, state: BeamState) -> Iterator[dict[str, Any]]:
        """Describes the K best so far; a later one may be better."""
        tokenizer = self.translator.tokenizer
        for slot in np.flatnonzero(np.isfinite(state.finished_scores)):
            ids = state.finished_ids[slot, : state.finished_lengths[slot]]
            text, _ = self.translator.task.decode(tokenizer, ids, self.text)
            penalty = self._penalty(len(ids))
            score = float(state.finished_scores[slot])
            yield {
                "pieces": self._pieces(ids),
                "text": text,
                "log_prob": score * penalty,
                "length_penalty": penalty,
                "score": score,
            }

    def _pieces(self, ids: Any) -> list[str]:
        return self.translator.tokenizer.target.pieces(np.asarray(ids))

    def _token(self, token_id: int, log_prob: float) -> dict[str, Any]:
        piece = self._pieces([token_id])[0]
        return {"piece": piece, "probability": float(np.exp(log_prob))}

    def _penalty(self, length: int) -> float:
        return float(self.searcher.settings.penalty(np.float32(length)))


def _first_row(values: Any) -> Any:
    """Returns tensors of one sentence as arrays without the batch axis."""
    return tf.nest.map_structure(
        lambda x: x.numpy()[0] if x.shape.rank else x.numpy(), values
    )
