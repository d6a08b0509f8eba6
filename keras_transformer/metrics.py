"""Unsmoothed metrics per target token, padding ignored.

Letters: B = batch, T = target length, V = vocabulary.
"""

from typing import Any

import keras
from keras import ops

from keras_transformer.losses import smoothed_cross_entropy, token_weights


class TokenMetric(keras.metrics.Mean):
    """Mean of a value per target token.

    Args:
        pad_id: Label that is ignored; see `LabelSmoothedCrossEntropy`.
        name: Name of the metric. Default: `default_name` of the class.
        **kwargs: Arguments of `keras.metrics.Metric`.

    Call arguments:
        y_true: Label ids `[B, T]`.
        y_pred: Logits `[B, T, V]`.
        sample_weight: Weights `[B]` or `[B, T]`. Optional.
    """

    default_name: str | None = None

    def __init__(
        self, pad_id: int = 0, name: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(name=name or self.default_name, **kwargs)
        self.pad_id = pad_id

    def values(self, labels: Any, logits: Any) -> Any:
        """Returns a float32 value per label, `[B, T]`; subclasses define it."""

    def update_state(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> None:
        weight = token_weights(y_true, self.pad_id, sample_weight)
        values = self.values(ops.where(weight == 0, 0, y_true), y_pred)
        # Keras would average `[B, T]` values over T first, and so weight a
        # batch by its sequences, not by its tokens.
        super().update_state(ops.reshape(values, -1), ops.reshape(weight, -1))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "pad_id": self.pad_id}


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenNLL(TokenMetric):
    """Negative log-likelihood in nats per token, without label smoothing."""

    default_name = "nll"

    def values(self, labels: Any, logits: Any) -> Any:
        return smoothed_cross_entropy(labels, logits)


@keras.saving.register_keras_serializable(package="keras_transformer")
class Perplexity(TokenNLL):
    """exp(negative log-likelihood per token), per subword as in Table 3."""

    default_name = "perplexity"

    def result(self) -> Any:
        return ops.exp(super().result())


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenAccuracy(TokenMetric):
    """Share of tokens whose most probable prediction is the label."""

    default_name = "accuracy"

    def values(self, labels: Any, logits: Any) -> Any:
        best = ops.argmax(logits, axis=-1)
        labels = ops.cast(labels, best.dtype)
        return ops.cast(ops.equal(best, labels), "float32")
