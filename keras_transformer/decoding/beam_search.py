"""Beam search with a length penalty (section 6.1; Wu et al. 2016).

Letters: B = batch, K = beam size, V = vocabulary, t = tokens decoded so far.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer.decoding.scoring import length_penalty
from keras_transformer.errors import InputError

# step(ids [B, K], parents [B, K], cache, index) -> (log_probs [B, K, V], cache)
Step = Callable[[tf.Tensor, tf.Tensor, Any, tf.Tensor], tuple[tf.Tensor, Any]]


class SearchResult(NamedTuple):
    """Hypotheses, best first."""

    ids: tf.Tensor  # [B, K, t] int32; up to the end token, then padding
    scores: tf.Tensor  # [B, K] float32; -inf where there are fewer than K
    lengths: tf.Tensor  # [B, K] int32, the end token included


class _State(NamedTuple):
    """What the search carries from step to step."""

    index: tf.Tensor  # scalar int32: t, the position to decode
    cache: Any  # the step function's own
    live_ids: tf.Tensor  # [B, K, t] hypotheses without an end token
    live_log_probs: tf.Tensor  # [B, K] their log P, best first
    last_ids: tf.Tensor  # [B, K] the token to feed
    parents: tf.Tensor  # [B, K] whom each one continues
    finished_ids: tf.Tensor  # [B, K, t] frozen hypotheses, then padding
    finished_scores: tf.Tensor  # [B, K] best first; -inf = empty place
    finished_lengths: tf.Tensor  # [B, K]


@dataclasses.dataclass(frozen=True)
class BeamSearch:
    """Finds the hypotheses of highest score log P / ((5 + n) / 6)^alpha.

    n counts the tokens with the end token. At each step the K best
    continuations of the live hypotheses live on. A continuation with the end
    token is finished if it is among the K best; its score never changes
    again. A sentence stops when K hypotheses are finished and no live one can
    still score better than the worst of them, or at its longest allowed
    length, whose last token is always the end token: so every hypothesis
    ends with one. With beam size 1 the search is greedy: it takes the best
    token until that is the end token.

    Args:
        beam_size: Hypotheses kept, K. The paper: 4.
        alpha: Exponent of the length penalty. The paper: 0.6.
        extra_length: A hypothesis has at most source length + this many
            tokens. The paper: 50.

    Raises:
        InputError: If an argument is out of range.
    """

    beam_size: int = 4
    alpha: float = 0.6
    extra_length: int = 50

    def __post_init__(self) -> None:
        if self.beam_size < 1:
            raise InputError(
                "beam_size must be at least 1. Received: "
                f"beam_size={self.beam_size}"
            )
        if not self.alpha >= 0.0:
            raise InputError(
                f"alpha must not be negative. Received: alpha={self.alpha}"
            )
        if self.extra_length < 0:
            raise InputError(
                "extra_length must not be negative. Received: "
                f"extra_length={self.extra_length}"
            )

    def __call__(
        self,
        step: Step,
        cache: Any,
        max_lengths: tf.Tensor,
        *,
        bos_id: int,
        eos_id: int,
        pad_id: int,
        banned_ids: tuple[int, ...] = (),
    ) -> SearchResult:
        """Searches for the best continuations of `bos_id`.

        Args:
            step: Called with the last ids `[B, K]`, the slot of the step
                before that each hypothesis continues (`parents`, `[B, K]`),
                the cache, and the index of the position (a scalar). Returns
                natural-log probabilities `[B, K, V]` of the next token and
                the cache. The search never reorders the cache; the step
                knows from `parents` what belongs to whom.
            cache: The step's initial cache, a nested structure of tensors.
                An axis of length 0 may grow from step to step.
            max_lengths: int32 `[B]`, tokens allowed, the end token included.
            bos_id: Token before the first.
            eos_id: The end token.
            pad_id: What fills ids after the end token.
            banned_ids: Ids that no hypothesis may contain. Padding and
                `bos_id` are always among them.

        Returns:
            `SearchResult`, best hypothesis first; ties keep the earlier one.
        """
        max_lengths = tf.maximum(tf.cast(max_lengths, tf.int32), 1)
        state = self._start(cache, tf.shape(max_lengths)[0], bos_id)
        banned = sorted({pad_id, bos_id, *banned_ids})

        def body(*state: Any) -> _State:
            state = _State(*state)
            log_probs, cache = step(
                state.last_ids, state.parents, state.cache, state.index
            )
            log_probs = self._allowed(
                log_probs, state.index + 1 >= max_lengths, eos_id, banned
            )
            state = self._advance(state, log_probs, eos_id, pad_id)
            return state._replace(cache=cache)

        def unfinished(*state: Any) -> tf.Tensor:
            state = _State(*state)
            return tf.reduce_any(self._can_win(state, max_lengths))

        state = tf.while_loop(
            unfinished, body, state, shape_invariants=_invariants(state)
        )
        state = _State(*state)
        scores = state.finished_scores
        lengths = tf.where(tf.math.is_inf(scores), 0, state.finished_lengths)
        in_use = tf.range(state.index) < lengths[:, :, None]
        ids = tf.where(in_use, state.finished_ids, pad_id)
        return SearchResult(ids, scores, lengths)

    def _start(self, cache: Any, batch: tf.Tensor, bos_id: int) -> _State:
        beams = tf.stack([batch, self.beam_size])
        nothing = tf.fill(beams, -float("inf"))
        no_ids = tf.zeros([batch, self.beam_size, 0], tf.int32)
        # All beams are the same at first: only one of them may live.
        first = tf.one_hot(0, self.beam_size, 0.0, -float("inf"))
        return _State(
            index=tf.constant(0),
            cache=cache,
            live_ids=no_ids,
            live_log_probs=tf.broadcast_to(first, beams),
            last_ids=tf.fill(beams, bos_id),
            parents=tf.zeros(beams, tf.int32),
            finished_ids=no_ids,
            finished_scores=nothing,
            finished_lengths=tf.zeros(beams, tf.int32),
        )

    def _allowed(
        self,
        log_probs: tf.Tensor,
        at_limit: tf.Tensor,
        eos_id: int,
        banned: list[int],
    ) -> tf.Tensor:
        """Gives -inf to banned ids and, at a limit, to all but the end."""
        vocab = tf.range(tf.shape(log_probs)[-1])
        is_banned = tf.reduce_any(vocab[:, None] == banned, axis=-1)  # [V]
        is_banned |= at_limit[:, None] & (vocab != eos_id)  # [B, V]
        return tf.where(
            is_banned[:, None], -float("inf"), tf.cast(log_probs, tf.float32)
        )

    def _advance(
        self, state: _State, log_probs: tf.Tensor, eos_id: int, pad_id: int
    ) -> _State:
        """Extends the live hypotheses by a token and sorts out the ended."""
        beam_size = self.beam_size
        vocab_size = tf.shape(log_probs)[-1]
        candidates = state.live_log_probs[:, :, None] + log_probs  # [B, K, V]
        candidates = tf.reshape(candidates, [-1, beam_size * vocab_size])
        # At most K of the best 2K end here, so at least K can live on.
        log_probs, places = tf.math.top_k(candidates, 2 * beam_size)
        parents = places // vocab_size  # [B, 2K]
        tokens = places % vocab_size
        ids = tf.gather(state.live_ids, parents, batch_dims=1)
        ids = tf.concat([ids, tokens[:, :, None]], axis=2)  # [B, 2K, t + 1]
        ended = tokens == eos_id

        length = state.index + 1
        new_scores = tf.where(
            ended[:, :beam_size],
            log_probs[:, :beam_size] / length_penalty(length, self.alpha),
            -float("inf"),
        )
        frozen_ids = tf.pad(
            state.finished_ids, [[0, 0], [0, 0], [0, 1]], constant_values=pad_id
        )
        # The earlier finished come first: they win ties.
        scores = tf.concat([state.finished_scores, new_scores], axis=1)
        finished_scores, best = tf.math.top_k(scores, beam_size)
        finished_ids = tf.concat([frozen_ids, ids[:, :beam_size]], axis=1)
        new_lengths = tf.fill(tf.shape(new_scores), length)
        lengths = tf.concat([state.finished_lengths, new_lengths], axis=1)

        if beam_size == 1:
            # Greedy: nothing outlives the first to end.
            ended |= tf.math.is_finite(finished_scores)
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

    def _can_win(self, state: _State, max_lengths: tf.Tensor) -> tf.Tensor:
        """Returns `[B]`: may a live hypothesis still enter the finished?

        A log-probability only falls, and the penalty divides it by the more
        the longer a hypothesis gets: the bound is the best live hypothesis
        at its longest allowed length. Where none lives, that is -inf: at the
        limit, and in greedy search after the first end.
        """
        best = state.live_log_probs[:, 0] / length_penalty(
            max_lengths, self.alpha
        )
        in_time = state.index < max_lengths
        can_win = best > state.finished_scores[:, -1]
        return in_time & can_win


def _invariants(state: _State) -> _State:
    """Shapes through the loop: what is empty at the start may grow."""

    def invariant(tensor: tf.Tensor) -> tf.TensorShape:
        lengths = [length or None for length in tensor.shape]
        return tf.TensorShape([None, *lengths[1:]] if lengths else [])

    return tf.nest.map_structure(invariant, state)
