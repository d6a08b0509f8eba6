"""Scores of translations: log-probability over a length penalty.

Letters: B = batch, T = target length, V = vocabulary.
"""

from typing import Any, NamedTuple

from keras import ops

from keras_transformer.decoding.settings import Search
from keras_transformer.losses import smoothed_cross_entropy, token_weights


class SequenceScores(NamedTuple):
    """How likely given sequences are; each float32 `[B]`."""

    scores: Any  # log P / length penalty, by which the search ranks
    log_probs: Any  # log P, a natural logarithm
    perplexities: Any  # exp(-log P / n)


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
    log_probs: Any, lengths: Any, settings: Search
) -> SequenceScores:
    """Returns how likely sequences of n tokens are.

    Args:
        log_probs: Log-probabilities of the tokens, `[B, T]`, from
            `token_log_probs`.
        lengths: n, `[B]`.
        settings: The search that has the length penalty.
    """
    total = ops.sum(log_probs, axis=-1)
    lengths = ops.cast(lengths, "float32")
    scores = total / settings.penalty(lengths)
    return SequenceScores(scores, total, ops.exp(-total / lengths))
