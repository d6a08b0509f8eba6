"""Sampling with temperature, top-k and top-p (nucleus; Holtzman et al. 2020).

Letters: B = batch, K = samples per sentence, V = vocabulary, t = tokens
decoded so far.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer.decoding import loop
from keras_transformer.decoding.settings import Sampling, SearchResult
from keras_transformer.decoding.top_k import block_size, top_k, without_repeats
from keras_transformer.text.ids import SpecialIds

# Most nuclei are smaller; sorting a whole vocabulary would dominate a step.
_NUCLEUS = 1024


class _State(NamedTuple):
    """The loop variables of sampling."""

    index: tf.Tensor  # scalar int32: t, the position to decode
    cache: Any  # the step function's
    ids: tf.Tensor  # [B, K, t]; padding after the end token
    last_ids: tf.Tensor  # [B, K] the next input of the step function
    log_probs: tf.Tensor  # [B, K] log P
    lengths: tf.Tensor  # [B, K] end token included; 0 before it
    constraints: loop.Constraints
    keys: tf.Tensor  # [B] key of the random numbers of each sentence
    sentences: tf.Tensor  # [B] index of each row in the whole batch


def sample(
    step: loop.StepFunction,
    cache: Any,
    max_lengths: tf.Tensor,
    keys: tf.Tensor,
    settings: Sampling,
    special_ids: SpecialIds,
    prefix: tf.Tensor | None = None,
) -> SearchResult:
    """Draws continuations of the start token at random; see `Sampling`.

    The arguments are as in `beam_search`, except `keys`, integers `[B]`: the
    samples of a sentence depend on its key, the seed and the probabilities
    only, not on its batch. A sample always continues its own slot. A larger
    `num_samples` draws the same samples first.

    Returns:
        A `SearchResult`, best first. Scores follow from the model's own
        probabilities, without temperature, top-k and top-p.
    """
    num_samples = settings.num_hypotheses
    bos_id, eos_id, pad_id, banned_ids = special_ids
    constraints = loop.Constraints.create(max_lengths, prefix, pad_id)
    banned = tf.constant(banned_ids, tf.int32)

    def extend(state: _State) -> _State:
        """Decodes one more token of each sample."""
        slots = tf.range(num_samples)
        own = tf.broadcast_to(slots, tf.shape(state.last_ids))
        log_probs, cache = step(state.last_ids, own, state.cache, state.index)
        log_probs = tf.cast(log_probs, tf.float32)
        every_id = tf.range(tf.shape(log_probs)[-1])
        is_banned = tf.reduce_any(every_id[:, None] == banned, axis=-1)
        logits = tf.where(is_banned, -float("inf"), log_probs)
        logits = without_repeats(logits, state.ids, settings)
        logits = _filtered(logits, settings)
        seed = settings.seed
        first, second = _random_numbers(seed, state.keys, slots, state.index)
        forced = state.constraints.forced(state.index, eos_id)[:, None]
        is_forced = forced != pad_id
        tokens = tf.where(is_forced, forced, _draw(logits, first, second))

        is_live = state.lengths == 0
        tokens = tf.where(is_live, tokens, pad_id)
        # A constant K is lost when blocks are reshaped.
        tokens = tf.ensure_shape(tokens, state.last_ids.shape)
        added = tf.gather(log_probs, tokens, batch_dims=2)
        length = state.index + 1
        return state._replace(
            index=length,
            cache=cache,
            ids=tf.concat([state.ids, tokens[:, :, None]], axis=2),
            last_ids=tokens,
            log_probs=state.log_probs + tf.where(is_live, added, 0.0),
            lengths=tf.where(tokens == eos_id, length, state.lengths),
        )

    batch = tf.shape(constraints.max_lengths)[0]
    slots = tf.stack([batch, num_samples])
    state = _State(
        index=tf.constant(0),
        cache=cache,
        ids=tf.zeros([batch, num_samples, 0], tf.int32),
        last_ids=tf.fill(slots, bos_id),
        log_probs=tf.zeros(slots),
        lengths=tf.zeros(slots, tf.int32),
        constraints=constraints,
        keys=keys,
        sentences=tf.range(batch),
    )
    ids, log_probs, lengths = loop.run_search(
        state,
        extend=extend,
        is_live=lambda state: tf.reduce_any(state.lengths == 0, axis=1),
        make_result=lambda x: SearchResult(x.ids, x.log_probs, x.lengths),
        pad_id=pad_id,
    )
    scores = log_probs / settings.penalty(tf.cast(lengths, tf.float32))
    scores, order = tf.math.top_k(scores, num_samples)
    ids = tf.gather(ids, order, batch_dims=1)
    lengths = tf.gather(lengths, order, batch_dims=1)
    return SearchResult(ids, scores, lengths)


def _filtered(logits: tf.Tensor, settings: Sampling) -> tf.Tensor:
    """Applies temperature, top-k and top-p, in this order, to `[B, K, V]`."""
    logits -= tf.reduce_max(logits, axis=-1, keepdims=True)
    logits /= settings.temperature

    def filtered() -> tf.Tensor:
        is_kept = logits >= _least_kept(logits, settings)
        return tf.where(is_kept, logits, -float("inf"))

    has_top_p = tf.less(settings.top_p, 1.0)
    is_needed = tf.logical_or(tf.greater(settings.top_k, 0), has_top_p)
    return tf.cond(is_needed, filtered, lambda: logits)


def _least_kept(logits: tf.Tensor, settings: Sampling) -> tf.Tensor:
    """Returns the smallest logit kept by top-k and then top-p, `[B, K, 1]`."""
    vocab_size = tf.shape(logits)[-1]
    top_p = settings.top_p
    has_top_k = tf.greater(settings.top_k, 0)
    everything = tf.reduce_sum(tf.exp(logits), axis=-1, keepdims=True)

    def least(count: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Searches the best `count` tokens; also returns if they suffice."""
        best, _ = top_k(logits, count)
        weights = tf.exp(best)
        total = tf.reduce_sum(weights, axis=-1, keepdims=True)
        total = tf.where(has_top_k, total, everything)
        before = tf.cumsum(weights, axis=-1, exclusive=True)
        is_kept = tf.logical_or(before < top_p * total, tf.equal(top_p, 1.0))
        kept = tf.where(is_kept, best, best[..., :1])  # at least the best
        suffices = has_top_k | ~tf.reduce_any(is_kept[..., -1])
        return tf.reduce_min(kept, axis=-1, keepdims=True), suffices

    count = tf.where(has_top_k, settings.top_k, _NUCLEUS)
    result, suffices = least(tf.minimum(count, vocab_size))
    return tf.cond(suffices, lambda: result, lambda: least(vocab_size)[0])


def _random_numbers(
    seed: int | tf.Tensor, keys: tf.Tensor, slots: tf.Tensor, index: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns two random numbers in [0, 1) per sample, float64 `[B, K]`."""
    # TensorFlow's generators take one seed per tensor: the numbers of a
    # sentence would depend on its batch.
    text = tf.strings.as_string
    names = tf.strings.join([text(seed), text(index)], " ") + " "
    names += text(keys)[:, None] + " " + text(slots)
    values = tf.strings.to_hash_bucket_strong(names, 2**62, key=[0, 0])
    halves = (values // 2**31, values % 2**31)
    return tuple(tf.cast(half, tf.float64) / 2**31 for half in halves)


def _draw(logits: tf.Tensor, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Draws a block of each distribution `[B, K, V]`, and one of its tokens."""
    size = block_size(logits.shape[-1]) or tf.shape(logits)[-1]
    batch, samples = tf.unstack(tf.shape(logits)[:2])
    weights = tf.reshape(tf.exp(logits), [batch, samples, -1, size])
    block = _choose(tf.reduce_sum(weights, axis=-1), first)
    weights = tf.gather(weights, block, batch_dims=2)  # [B, K, size]
    return block * size + _choose(weights, second)


def _choose(weights: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
    """Returns where cumulative weights exceed a part of the total, `[B, K]`."""
    # In float64: rounding depends on the batch, and must not change the index.
    total = tf.cumsum(tf.cast(weights, tf.float64), axis=-1)
    is_below = total <= number[:, :, None] * total[:, :, -1:]
    return tf.reduce_sum(tf.cast(is_below, tf.int32), axis=-1)
