"""Beam search with NumPy; the twin of `beam.py`, which explains it.

Letters: B = batch, K = beam size, C = candidates of a hypothesis, t = tokens
decoded so far, p = prefix length.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from keras_transformer.decoding.settings import BeamSearch, SearchResult
from keras_transformer.text.ids import SpecialIds


class Predictions(NamedTuple):
    """The most likely next tokens of each hypothesis, best first."""

    log_probs: np.ndarray  # [B, K, C] natural logarithms
    tokens: np.ndarray  # [B, K, C] int32
    forced_log_probs: np.ndarray  # [B, K, 1] log P of the forced token


class Beams(NamedTuple):
    """The hypotheses of a batch, in arrays of the maximum length."""

    sentences: np.ndarray  # [B] index of each row in the whole batch
    max_lengths: np.ndarray  # [B]
    prefix: np.ndarray  # [B, p + 1] forced tokens, then padding
    live_ids: np.ndarray  # [B, K, longest] hypotheses without an end token
    live_log_probs: np.ndarray  # [B, K] their log P, best first
    last_ids: np.ndarray  # [B, K] the next input
    parents: np.ndarray  # [B, K] slot that each hypothesis continues
    finished_ids: np.ndarray  # [B, K, longest]
    finished_scores: np.ndarray  # [B, K] best first; -inf in an empty slot
    finished_lengths: np.ndarray  # [B, K]


class Candidates(NamedTuple):
    """The 2K best continuations of live hypotheses by a token, best first."""

    tokens: np.ndarray  # [B, 2K] int32
    parents: np.ndarray  # [B, 2K] slot of the hypothesis that each continues
    log_probs: np.ndarray  # [B, 2K] log P with the token; -inf if not allowed


class Decoding(Protocol):
    """Decodes the sentences of a batch token by token, for `beam_search`."""

    finished_share: float  # of the batch, at which `keep` is called

    def step(
        self, ids: np.ndarray, parents: np.ndarray, forced_ids: np.ndarray
    ) -> Predictions:
        """Decodes one more token of each hypothesis.

        All arguments are `[B, K]`: the last tokens, the slots of the previous
        step that they continue, and the tokens whose log P the search needs.
        """

    def keep(self, rows: np.ndarray) -> None:
        """Removes all sentences except those in these rows."""


def beam_search(
    decoding: Decoding,
    max_lengths: np.ndarray,
    settings: BeamSearch,
    special_ids: SpecialIds,
    count: int,
    prefix: np.ndarray,
    record: Callable[..., None] | None = None,
) -> SearchResult:
    """Returns the `count` best hypotheses of each source, best first.

    `record` is called after each step, with the beams before it, its
    predictions and candidates, and the beams after it.
    """
    pad_id = special_ids.pad_id
    batch = len(max_lengths)
    beam_size = settings.beam_size
    longest = max(max_lengths)
    no_ids = np.full((batch, beam_size, longest), pad_id, np.int32)
    nothing = np.full((batch, beam_size), -np.inf, np.float32)
    # After the prefix, padding: any token is allowed.
    prefix = np.pad(prefix, [[0, 0], [0, 1]], constant_values=pad_id)
    beams = Beams(
        sentences=np.arange(batch),
        max_lengths=max_lengths,
        prefix=prefix,
        live_ids=no_ids,
        # All beams are the same at first, so only one of them is live.
        live_log_probs=np.where(np.arange(beam_size) == 0, 0, nothing),
        last_ids=np.full((batch, beam_size), special_ids.bos_id, np.int32),
        parents=np.zeros((batch, beam_size), np.int32),
        finished_ids=no_ids,
        finished_scores=nothing,
        finished_lengths=np.zeros((batch, beam_size), np.int32),
    )
    search = _Search(settings, special_ids, count, beams)
    result = search.finished()  # none yet
    while True:
        beams = search.beams
        forced = search.forced()
        forced_ids = forced[:, None].repeat(beam_size, axis=1)
        predictions = decoding.step(beams.last_ids, beams.parents, forced_ids)
        candidates = search.candidates(predictions, forced)
        search.advance(candidates)
        if record is not None:
            record(beams, predictions, candidates, search.beams)
        is_live = search.can_win()
        if is_live.sum() > (1 - decoding.finished_share) * len(is_live):
            continue
        for column, values in zip(result, search.finished(), strict=True):
            column[search.beams.sentences] = values
        if not is_live.any():
            return result
        rows = np.flatnonzero(is_live)
        search.beams = Beams._make(values[rows] for values in search.beams)
        decoding.keep(rows)


@dataclasses.dataclass
class _Search:
    """The steps of a search."""

    settings: BeamSearch
    special_ids: SpecialIds
    count: int
    beams: Beams
    length: int = 0  # t

    def forced(self) -> np.ndarray:
        """Returns the forced token, `[B]`; padding where any may follow."""
        prefix = self.beams.prefix
        forced = prefix[:, min(self.length, prefix.shape[1] - 1)]
        is_last = self.length + 1 >= self.beams.max_lengths
        return np.where(is_last, self.special_ids.eos_id, forced)

    def advance(self, candidates: Candidates) -> None:
        """Extends the live hypotheses by a token; some of them finish."""
        beams = self.beams
        beam_size = self.settings.beam_size
        rows = np.arange(len(beams.sentences))[:, None]
        tokens, parents, log_probs = candidates
        if self.settings.stop != "exact":
            # A stopped sentence stays until others have stopped, too.
            log_probs = np.where(self.can_win()[:, None], log_probs, -np.inf)
        ids = beams.live_ids[rows, parents]  # [B, 2K, longest]
        ids[:, :, self.length] = tokens
        ended = tokens == self.special_ids.eos_id
        self.length += 1

        if ended[:, :beam_size].any():
            penalty = self.settings.penalty(np.float32(self.length))
            scores = np.where(ended, log_probs / penalty, -np.inf)
            # Hypotheses that finished earlier come first, to win ties.
            scores = np.hstack([beams.finished_scores, scores[:, :beam_size]])
            best = _best(scores, beam_size)
            both = np.hstack([beams.finished_ids, ids[:, :beam_size]])
            lengths = np.full((len(ids), beam_size), self.length, np.int32)
            lengths = np.hstack([beams.finished_lengths, lengths])
            beams = beams._replace(
                finished_ids=both[rows, best],
                finished_scores=scores[rows, best],
                finished_lengths=lengths[rows, best],
            )

        if beam_size == 1:  # greedy: the first end token ends the search
            ended |= np.isfinite(beams.finished_scores)
        log_probs = np.where(ended, np.float32(-np.inf), log_probs)
        chosen = _best(log_probs, beam_size)
        self.beams = beams._replace(
            live_ids=ids[rows, chosen],
            live_log_probs=log_probs[rows, chosen],
            last_ids=tokens[rows, chosen],
            parents=parents[rows, chosen],
        )

    def candidates(
        self, predictions: Predictions, forced: np.ndarray
    ) -> Candidates:
        """Returns the candidates for the hypotheses of the next step."""
        log_probs = predictions.log_probs.copy()
        tokens = predictions.tokens.copy()
        for token in self.special_ids.banned_ids:
            log_probs[tokens == token] = -np.inf
        if size := self.settings.no_repeat_ngram:
            ids = self.beams.live_ids[:, :, : self.length]
            ends, are_repeats = repeats(np, ids, size)
            is_banned = tokens[..., None] == ends[:, :, None]
            is_banned &= are_repeats[:, :, None]
            log_probs[is_banned.any(axis=-1)] = -np.inf
        is_forced = forced != self.special_ids.pad_id
        log_probs[is_forced] = -np.inf
        log_probs[is_forced, :, :1] = predictions.forced_log_probs[is_forced]
        tokens[is_forced] = forced[is_forced, None, None]
        total = self.beams.live_log_probs[:, :, None] + log_probs
        total = total.reshape(len(total), -1)
        rows = np.arange(len(total))[:, None]
        best = _best(total, 2 * self.settings.beam_size)
        tokens = tokens.reshape(total.shape)[rows, best]
        parents = best // log_probs.shape[-1]
        return Candidates(tokens, parents, total[rows, best])

    def can_win(self) -> np.ndarray:
        """Returns True where a live hypothesis can still be a result, `[B]`."""
        beams = self.beams
        can_win = self.settings.can_win(
            beams.live_log_probs[:, 0],
            beams.finished_scores,
            self.count,
            np.float32(max(self.length, 1)),  # 0 before the first step
            beams.max_lengths.astype(np.float32),
        )
        return can_win & (self.length < beams.max_lengths)

    def finished(self) -> SearchResult:
        """Returns the best finished hypotheses of all rows."""
        ids = self.beams.finished_ids[:, : self.count]
        scores = self.beams.finished_scores[:, : self.count]
        lengths = self.beams.finished_lengths[:, : self.count]
        is_used = np.isfinite(scores)
        return SearchResult(
            ids=np.where(is_used[..., None], ids, self.special_ids.pad_id),
            scores=np.where(is_used, scores, -np.inf),
            lengths=np.where(is_used, lengths, 0),
        )


def _best(scores: np.ndarray, count: int) -> np.ndarray:
    """Returns the indices of the best scores, in order; ties stay in order."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :count]


def repeats(xp: Any, ids: Any, size: int) -> tuple[Any, Any]:
    """Returns the last tokens of all n-grams of hypotheses `[B, K, t]`.

    Also returns which of them would complete a repeated n-gram; both are
    `[B, K, m]`. `xp` is `numpy` or `tensorflow`; `size`, n, is at least 1.
    """
    last = xp.shape(ids)[2] - size + 1  # where their last n-gram begins
    count = xp.maximum(last, 0)
    tokens = ids[:, :, size - 1 :]
    are_same = xp.ones_like(tokens, bool)
    for i in range(size - 1):
        now = ids[:, :, last + i : last + i + 1]
        are_same &= ids[:, :, i : i + count] == now
    return tokens, are_same


def longest_outputs(
    xp: Any,
    source_lengths: Any,
    prefix_lengths: Any,
    length_factor: Any,
    extra_length: Any,
    max_length: int,
) -> Any:
    """Returns the maximum length of each hypothesis, an integral float32 `[B]`.

    Lengths include end tokens. All arguments but the last are float32; `xp` is
    `numpy` or `tensorflow`.
    """
    lengths = xp.minimum(length_factor * source_lengths, float(max_length))
    lengths = xp.maximum(xp.floor(lengths) + extra_length, 1.0)
    return xp.minimum(lengths + prefix_lengths, float(max_length))
