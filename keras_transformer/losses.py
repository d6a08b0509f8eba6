"""Label-smoothed cross-entropy (section 5.4).

Letters: B = batch, T = target length, V = vocabulary.
"""

from typing import Any

import keras
from keras import ops


def smoothed_cross_entropy(
    labels: Any, logits: Any, label_smoothing: float = 0.0
) -> Any:
    """Returns the cross-entropy of each token against a smoothed target.

    The target gives 1 - e to the right token and e / (V - 1) to each other
    one, e being `label_smoothing`: the definition of the paper's own code.
    As its entries sum to one, the cross-entropy is

        logsumexp(z) - (1 - e - e / (V - 1)) z[label] - e / (V - 1) sum(z)

    and no tensor of shape `[B, T, V]` is built beside the logits z.

    Args:
        labels: Integer ids `[B, T]`.
        logits: `[B, T, V]`, of any float dtype; computed in float32.
        label_smoothing: e, in [0, 1).

    Returns:
        Nats a token, float32 `[B, T]`.
    """
    logits = ops.cast(logits, "float32")
    right = ops.take_along_axis(
        logits, ops.cast(labels, "int32")[..., None], axis=-1
    )[..., 0]
    log_normaliser = ops.logsumexp(logits, axis=-1)
    if not label_smoothing:
        return log_normaliser - right
    other = label_smoothing / (logits.shape[-1] - 1)
    return (
        log_normaliser
        - (1.0 - label_smoothing - other) * right
        - other * ops.sum(logits, axis=-1)
    )


@keras.saving.register_keras_serializable(package="keras_transformer")
class LabelSmoothedCrossEntropy(keras.losses.Loss):
    """Mean smoothed cross-entropy of a batch's tokens, padding left out.

    Every token weighs the same, however long its sentence. The definition of
    the smoothed mass is in `smoothed_cross_entropy`.

    Args:
        label_smoothing: Probability taken from the right token, in [0, 1).
        pad_id: Label that does not count.
        name: Name of the loss.
        **kwargs: Arguments of `keras.losses.Loss`; the default reduction is
            the mean over the labels that count.

    Example:

    >>> import numpy as np, keras_transformer as kt
    >>> loss = kt.LabelSmoothedCrossEntropy(label_smoothing=0.1)
    >>> labels, logits = np.array([[5, 3, 0]]), np.zeros((1, 3, 10))
    >>> round(float(loss(labels, logits)), 4)  # log(10), uniform guess
    2.3026
    """

    def __init__(
        self,
        label_smoothing: float = 0.1,
        pad_id: int = 0,
        reduction: str = "mean_with_sample_weight",
        name: str = "label_smoothed_cross_entropy",
        **kwargs: Any,
    ) -> None:
        if not 0.0 <= label_smoothing < 1.0:
            raise ValueError(
                "label_smoothing must be in [0, 1). Received: "
                f"label_smoothing={label_smoothing}"
            )
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.label_smoothing = label_smoothing
        self.pad_id = pad_id

    def __call__(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> Any:
        weight = token_weights(y_true, self.pad_id, sample_weight)
        return super().__call__(y_true, y_pred, sample_weight=weight)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return smoothed_cross_entropy(y_true, y_pred, self.label_smoothing)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "label_smoothing": self.label_smoothing,
            "pad_id": self.pad_id,
        }


def token_weights(labels: Any, pad_id: int, sample_weight: Any = None) -> Any:
    """Returns float32 `[B, T]`: 0 for padding, else 1 or `sample_weight`."""
    weight = ops.cast(ops.not_equal(labels, pad_id), "float32")
    if sample_weight is None:
        return weight
    sample_weight = ops.cast(sample_weight, "float32")
    if len(sample_weight.shape) == 1:  # a weight a sentence
        sample_weight = sample_weight[:, None]
    return weight * sample_weight
