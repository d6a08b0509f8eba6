"""Beam search with a length penalty (section 6.1; Wu et al. 2016), in graphs.

`numpy_search.py` is its twin, with NumPy: `_Search` is `_Searcher` there, and
`Beams` is `_State`. A change in one needs the same in the other.

Letters: B = batch, K = beam size, V = vocabulary, t = tokens decoded so far.
"""

import dataclasses
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer.decoding import loop
from keras_transformer.decoding.numpy_search import Candidates
from keras_transformer.decoding.settings import BeamSearch, SearchResult
from keras_transformer.decoding.top_k import top_k, without_repeats
from keras_transformer.text.ids import SpecialIds


class _State(NamedTuple):
    """The loop variables of the search."""

    index: tf.Tensor  # scalar int32: t, the position to decode
    cache: Any  # the step function's
    live_ids: tf.Tensor  # [B, K, t] hypotheses without an end token
    live_log_probs: tf.Tensor  # [B, K] their log P, best first
    last_ids: tf.Tensor  # [B, K] the next input of the step function
    parents: tf.Tensor  # [B, K] slot that each hypothesis continues
    finished_ids: tf.Tensor  # [B, K, t] finished hypotheses, then padding
    finished_scores: tf.Tensor  # [B, K] best first; -inf in an empty slot
    finished_lengths: tf.Tensor  # [B, K]
    constraints: loop.Constraints
    sentences: tf.Tensor  # [B] index of each row in the whole batch


def beam_search(
    step: loop.StepFunction,
    cache: Any,
    max_lengths: tf.Tensor,
    settings: BeamSearch,
    special_ids: SpecialIds,
    count: int | tf.Tensor | None = None,
    prefix: tf.Tensor | None = None,
) -> SearchResult:
    """Searches for the best continuations of the start token; see `BeamSearch`.

    Args:
        step: Called with the last ids `[B, K]`, the slot of the previous step
            that each hypothesis continues (`parents`, `[B, K]`), the cache,
            and the position (a scalar). Returns natural-log probabilities
            `[B, K, V]` of the next token, and the cache. The search never
            reorders the cache; the step follows `parents` to a hypothesis'
            past.
        cache: Initial cache of the step: nested tensors, scalars or with the
            batch as first axis. A second axis of length 0 may grow from step
            to step. Finished sentences leave the batch: all that the step
            needs of a sentence must be in the cache.
        max_lengths: Maximum length of each hypothesis, the end token
            included, int32 `[B]`.
        settings: The fields may be scalar tensors in a graph.
        special_ids: The id of the first input, and ids of special tokens.
        count: n, the number of hypotheses to return. Default: K.
        prefix: Ids `[B, p]`, padded with `pad_id`; every hypothesis of a row
            begins with them.

    Returns:
        A `SearchResult` of the n best. Of equal scores, the hypothesis that
        finished earlier comes first.
    """
    count = settings.beam_size if count is None else count
    pad_id = special_ids.pad_id
    search = _Searcher(step, settings, special_ids, count)
    state = search.start(cache, max_lengths, prefix)
    ids, scores, lengths = loop.run_search(
        state, search.extend, search.can_win, search.result, pad_id
    )
    lengths = tf.where(tf.math.is_inf(scores), 0, lengths)
    in_use = tf.range(tf.shape(ids)[2]) < lengths[:, :, None]
    return SearchResult(tf.where(in_use, ids, pad_id), scores, lengths)


@dataclasses.dataclass(frozen=True)
class _Searcher:
    """The steps of a beam search. The fields are arguments of `beam_search`."""

    step: loop.StepFunction
    settings: BeamSearch
    special_ids: SpecialIds
    count: int | tf.Tensor

    def start(
        self, cache: Any, max_lengths: tf.Tensor, prefix: tf.Tensor | None
    ) -> _State:
        """Returns the state before the first step."""
        pad_id = self.special_ids.pad_id
        constraints = loop.Constraints.create(max_lengths, prefix, pad_id)
        batch = tf.shape(constraints.max_lengths)[0]
        beam_size = self.settings.beam_size
        beams = tf.stack([batch, beam_size])
        no_ids = tf.zeros([batch, beam_size, 0], tf.int32)
        # All beams are the same at first, so only one of them is live.
        first = tf.one_hot(0, beam_size, 0.0, -float("inf"))
        return _State(
            index=tf.constant(0),
            cache=cache,
            live_ids=no_ids,
            live_log_probs=tf.broadcast_to(first, beams),
            last_ids=tf.fill(beams, self.special_ids.bos_id),
            parents=tf.zeros(beams, tf.int32),
            finished_ids=no_ids,
            finished_scores=tf.fill(beams, -float("inf")),
            finished_lengths=tf.zeros(beams, tf.int32),
            constraints=constraints,
            sentences=tf.range(batch),
        )

    def extend(self, state: _State) -> _State:
        """Decodes one more token of each hypothesis."""
        log_probs, cache = self.step(
            state.last_ids, state.parents, state.cache, state.index
        )
        candidates = self.candidates(state, tf.cast(log_probs, tf.float32))
        return self.advance(state._replace(cache=cache), candidates)

    def candidates(self, state: _State, log_probs: tf.Tensor) -> Candidates:
        """Returns the candidates for the hypotheses of the next step."""
        # Operations over the vocabulary dominate the time. Banned tokens are
        # therefore masked after the top-k.
        beam_size = self.settings.beam_size
        count = 2 * beam_size + len(self.special_ids.banned_ids)
        count = tf.minimum(count, tf.shape(log_probs)[-1])
        allowed = without_repeats(log_probs, state.live_ids, self.settings)
        values, tokens = top_k(allowed, count)  # [B, K, count]
        banned = tf.constant(self.special_ids.banned_ids, tf.int32)
        is_banned = tf.reduce_any(tokens[..., None] == banned, axis=-1)
        values = tf.where(is_banned, -float("inf"), values)
        forced = state.constraints.forced(state.index, self.special_ids.eos_id)
        only = tf.gather(log_probs, forced, axis=2, batch_dims=1)[..., None]
        only = tf.where(tf.range(count) == 0, only, -float("inf"))
        forced = forced[:, None, None]
        is_forced = forced != self.special_ids.pad_id
        values = tf.where(is_forced, only, values)
        tokens = tf.where(is_forced, forced, tokens)

        flat = [-1, beam_size * count]
        values = tf.reshape(state.live_log_probs[:, :, None] + values, flat)
        # At most K of the best 2K end here, so at least K stay live.
        values, indices = tf.math.top_k(values, 2 * beam_size)
        tokens = tf.gather(tf.reshape(tokens, flat), indices, batch_dims=1)
        return Candidates(tokens, indices // count, values)

    def advance(self, state: _State, candidates: Candidates) -> _State:
        """Extends the live hypotheses by a token; some of them finish."""
        beam_size = self.settings.beam_size
        pad_id = self.special_ids.pad_id
        tokens, parents, log_probs = candidates
        if self.settings.stop != "exact":
            # A stopped sentence stays until half of the batch has stopped.
            can_win = self.can_win(state)[:, None]
            log_probs = tf.where(can_win, log_probs, -float("inf"))
        ids = tf.gather(state.live_ids, parents, batch_dims=1)
        ids = tf.concat([ids, tokens[:, :, None]], axis=2)  # [B, 2K, t + 1]
        ended = tokens == self.special_ids.eos_id

        length = state.index + 1
        penalty = self.settings.penalty(tf.cast(length, tf.float32))
        finishes = ended[:, :beam_size]
        new_scores = log_probs[:, :beam_size] / penalty
        new_scores = tf.where(finishes, new_scores, -float("inf"))
        paddings = [[0, 0], [0, 0], [0, 1]]
        frozen_ids = tf.pad(
            state.finished_ids, paddings, constant_values=pad_id
        )
        # Hypotheses that finished earlier come first, to win ties.
        scores = tf.concat([state.finished_scores, new_scores], axis=1)
        finished_scores, best = tf.math.top_k(scores, beam_size)
        finished_ids = tf.concat([frozen_ids, ids[:, :beam_size]], axis=1)
        new_lengths = tf.fill(tf.shape(new_scores), length)
        lengths = tf.concat([state.finished_lengths, new_lengths], axis=1)

        # Greedy: the first end token ends the search.
        is_greedy = tf.equal(beam_size, 1)
        ended |= is_greedy & tf.math.is_finite(finished_scores[:, :1])
        log_probs = tf.where(ended, -float("inf"), log_probs)
        live, chosen = tf.math.top_k(log_probs, beam_size)
        return state._replace(
            index=length,
            live_ids=tf.gather(ids, chosen, batch_dims=1),
            live_log_probs=live,
            last_ids=tf.gather(tokens, chosen, batch_dims=1),
            parents=tf.gather(parents, chosen, batch_dims=1),
            finished_ids=tf.gather(finished_ids, best, batch_dims=1),
            finished_scores=finished_scores,
            finished_lengths=tf.gather(lengths, best, batch_dims=1),
        )

    def result(self, state: _State) -> SearchResult:
        """Returns the n best finished hypotheses."""
        ids = state.finished_ids[:, : self.count]
        scores = state.finished_scores[:, : self.count]
        lengths = state.finished_lengths[:, : self.count]
        return SearchResult(ids, scores, lengths)

    def can_win(self, state: _State) -> tf.Tensor:
        """Returns True where a live hypothesis can still be a result, `[B]`."""
        max_lengths = state.constraints.max_lengths
        length = tf.maximum(state.index, 1)  # before the first step it is 0
        can_win = self.settings.can_win(
            state.live_log_probs[:, 0],
            state.finished_scores,
            self.count,
            tf.cast(length, tf.float32),
            tf.cast(max_lengths, tf.float32),
        )
        return can_win & (state.index < max_lengths)
