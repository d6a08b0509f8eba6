"""Greedy and beam search, shown step by step."""

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_transformer.decoding import numpy_search
from keras_transformer.decoding.settings import BeamSearch
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
            hypothesis; at most as many as the search compares.

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
            "A trace needs a run or an export for LiteRT, and beam search. "
            f"Received: search={translator.search}"
        )
    text, ids = translator.read_one(text)
    limits = translator.backend.limits([ids], [[]])
    ids = [*ids, translator.tokenizer.source_eos_id]

    def record(search: BeamSearch, count: int) -> dict[str, Any]:
        recorder = _Recorder(translator, text, search, num_tokens)
        translator.engine.search(
            [ids], [[]], limits, search, count, record=recorder.add
        )
        return {
            "search": dataclasses.asdict(search),
            "max_length": int(limits[0]),
            "steps": recorder.steps,
        }

    return Trace(
        source=text,
        source_pieces=translator.tokenizer.source.pieces(ids),
        greedy=record(dataclasses.replace(translator.search, beam_size=1), 1),
        beam=record(translator.search, translator.num_translations),
    )


@dataclasses.dataclass(frozen=True)
class _Recorder:
    """Describes the steps of the search for one text.

    `log_prob` is log P, a natural logarithm; `score` is log P / length penalty.
    """

    translator: Translator
    text: str
    search: BeamSearch
    num_tokens: int
    steps: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def add(
        self,
        before: numpy_search.Beams,
        predictions: numpy_search.Predictions,
        candidates: numpy_search.Candidates,
        after: numpy_search.Beams,
    ) -> None:
        """Adds a description of a step."""
        length = len(self.steps) + 1  # of the hypotheses after this step
        penalty = self._penalty(length)
        continuations = self._continuations(before, candidates, after, penalty)
        step = {
            "length": length,
            "length_penalty": penalty,
            "hypotheses": list(self._hypotheses(before, predictions)),
            "continuations": list(continuations),
            "finished": list(self._finished(after)),
        }
        self.steps.append(step)

    def _hypotheses(
        self, beams: numpy_search.Beams, predictions: numpy_search.Predictions
    ) -> Iterator[dict[str, Any]]:
        """Describes live hypotheses, and their most probable next tokens."""
        bos_id = self.translator.tokenizer.bos_id
        for slot in np.flatnonzero(np.isfinite(beams.live_log_probs[0])):
            ids = beams.live_ids[0, slot, : len(self.steps)]
            tokens = predictions.tokens[0, slot, : self.num_tokens]
            log_probs = predictions.log_probs[0, slot]
            yield {
                "pieces": self._pieces([bos_id, *ids]),
                "log_prob": float(beams.live_log_probs[0, slot]),
                "best": list(map(self._token, tokens, log_probs)),
            }

    def _continuations(
        self,
        before: numpy_search.Beams,
        candidates: numpy_search.Candidates,
        after: numpy_search.Beams,
        penalty: float,
    ) -> Iterator[dict[str, Any]]:
        """Describes the 2K best hypotheses that are one token longer."""
        is_live = np.isfinite(after.live_log_probs)
        live_ids = after.last_ids[is_live]
        live = set(zip(live_ids, after.parents[is_live], strict=True))
        for rank, log_prob in enumerate(candidates.log_probs[0]):
            if not np.isfinite(log_prob):
                continue
            token_id = candidates.tokens[0, rank]
            parent = candidates.parents[0, rank]
            is_best = rank < self.search.beam_size
            fate = "live" if (token_id, parent) in live else "pruned"
            if is_best and token_id == self.translator.tokenizer.eos_id:
                fate = "finished"
            gained = log_prob - before.live_log_probs[0, parent]
            yield {
                "parent": int(parent),  # index of the hypothesis it continues
                "token": self._token(token_id, gained),
                "log_prob": float(log_prob),
                "score": float(log_prob) / penalty,  # as if it ended here
                "fate": fate,
            }

    def _finished(self, beams: numpy_search.Beams) -> Iterator[dict[str, Any]]:
        """Describes the K best so far; a later one may be better."""
        tokenizer = self.translator.tokenizer
        for slot in np.flatnonzero(np.isfinite(beams.finished_scores[0])):
            length = int(beams.finished_lengths[0, slot])
            ids = beams.finished_ids[0, slot, :length]
            text, _ = self.translator.task.decode(tokenizer, ids, self.text)
            penalty = self._penalty(length)
            score = float(beams.finished_scores[0, slot])
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
        return float(self.search.penalty(np.float32(length)))
