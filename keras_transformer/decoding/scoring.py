"""Scores of translations: log-probability over a length penalty.

Letters: B = batch, T = target length, V = vocabulary.
"""

from typing import Any

from keras import ops

from keras_transformer.losses import smoothed_cross_entropy, token_weights


def length_penalty(length: Any, alpha: float) -> Any:
    """Returns ((5 + length) / 6)^alpha (Wu et al. 2016, equation 14).

    Args:
        length: Number of tokens, the end token included.
        alpha: Exponent. 0 disables the penalty; the paper has 0.6.
    """
    return ops.power((5.0 + ops.cast(length, "float32")) / 6.0, alpha)


def sequence_scores(
    labels: Any, logits: Any, alpha: float, pad_id: int = 0
) -> Any:
    """Returns the score that a search gives to each sequence of labels.

    Args:
        labels: Ids `[B, T]`, each row up to its end token, then padded.
        logits: `[B, T, V]` of the model that is fed with these labels
            (force-decoding).
        alpha: Exponent of the length penalty.
        pad_id: Id of padding.

    Returns:
        log P / ((5 + n) / 6)^alpha, where n is the number of labels without
        padding; float32 `[B]`.
    """
    weights = token_weights(labels, pad_id)
    nll = ops.sum(smoothed_cross_entropy(labels, logits) * weights, axis=-1)
    return -nll / length_penalty(ops.sum(weights, axis=-1), alpha)
