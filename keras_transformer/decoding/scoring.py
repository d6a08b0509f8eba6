"""Scores of translations: log-probability over a length penalty.

Letters: B = batch, T = target length, V = vocabulary.
"""

from typing import Any, NamedTuple

from keras import ops

from keras_transformer.losses import smoothed_cross_entropy, token_weights


class SequenceScores(NamedTuple):
    """How likely given sequences are; each float32 `[B]`."""

    scores: Any  # log P / length penalty, by which the search ranks
    log_probs: Any  # log P, a natural logarithm
    perplexities: Any  # exp(-log P / n)


def length_penalty(length: Any, alpha: float) -> Any:
    """Returns ((5 + length) / 6)^alpha (Wu et al. 2016, equation 14).

    Args:
        length: Number of tokens, the end token included.
        alpha: Exponent. 0 disables the penalty; the paper has 0.6.
    """
    return ops.power((5.0 + ops.cast(length, "float32")) / 6.0, alpha)


def token_log_probs(labels: Any, logits: Any, pad_id: int = 0) -> Any:
    """Returns the log-probability of each label.

    Args:
        labels: Ids `[B, T]`, each row up to its end token, then padded.
        logits: `[B, T, V]` of the model that is fed with these labels
            (force-decoding).
        pad_id: Id of padding.

    Returns:
        Natural logarithms, float32 `[B, T]`; 0 for padding.
    """
    weights = token_weights(labels, pad_id)
    return -smoothed_cross_entropy(labels, logits) * weights


def sequence_scores(
    log_probs: Any, lengths: Any, alpha: float
) -> SequenceScores:
    """Returns how likely sequences of n tokens are.

    Args:
        log_probs: Of the tokens, `[B, T]`, from `token_log_probs`.
        lengths: n, `[B]`.
        alpha: Exponent of the length penalty.
    """
    total = ops.sum(log_probs, axis=-1)
    return SequenceScores(
        scores=total / length_penalty(lengths, alpha),
        log_probs=total,
        perplexities=ops.exp(-total / ops.cast(lengths, "float32")),
    )
