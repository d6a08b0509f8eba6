"""Log-probabilities of given translations.

Letters: B = batch, T = target length, V = vocabulary.
"""

from typing import Any

from keras_transformer.losses import smoothed_cross_entropy, token_weights


def token_log_probs(labels: Any, logits: Any, pad_id: int = 0) -> Any:
    """Returns the log-probability of each label.

    Args:
        labels: Ids `[B, T]`, each row up to its end token, then padded.
        logits: `[B, T, V]`, from force-decoding these labels.
        pad_id: Id of padding.

    Returns:
        Natural logarithms, float32 `[B, T]`; 0 for padding.
    """
    weights = token_weights(labels, pad_id)
    return -smoothed_cross_entropy(labels, logits) * weights
