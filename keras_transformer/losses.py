"""Label-smoothed cross-entropy (section 5.4), plain and fused.

Letters: B = batch, T = target length, V = vocabulary.
"""

from typing import Any

import keras
from keras import ops

from keras_transformer.layers.embedding import factors_of
from keras_transformer.support.fields import FRACTION, check_values


def smoothed_cross_entropy(
    labels: Any, logits: Any, label_smoothing: float = 0.0
) -> Any:
    """Returns the cross-entropy of each token with its smoothed target.

    The target is 1 - e for the label and e / (V - 1) for every other token,
    where e = `label_smoothing`, as in the paper's own code. A label that is not
    a token has the loss NaN and no gradient.

    Args:
        labels: Integer ids `[B, T]`.
        logits: z, `[B, T, V]`, of any float dtype; computed in float32.
        label_smoothing: Label-smoothing ε, in [0, 1).

    Returns:
        Nats per token, float32 `[B, T]`.
    """
    vocab_size = logits.shape[-1]
    labels, are_tokens = _known_labels(labels, vocab_size)
    logits = ops.cast(logits, "float32")
    if label_smoothing:
        other = label_smoothing / (vocab_size - 1)
        is_label = ops.equal(ops.arange(vocab_size), labels[..., None])
        target = ops.where(is_label, 1.0 - label_smoothing, other)
        losses = ops.categorical_crossentropy(target, logits, from_logits=True)
    else:
        losses = ops.sparse_categorical_crossentropy(
            labels, logits, from_logits=True
        )
    return _nan_unless(are_tokens, losses)


def _nan_unless(are_tokens: Any, losses: Any) -> Any:
    """Returns the losses, with NaN for labels that are not tokens."""
    # Not a constant, at which `tf.debugging.enable_check_numerics` would stop.
    nan = ops.sqrt(ops.cast(are_tokens, "float32") - 1.0)
    return ops.where(are_tokens, losses, nan)


def _known_labels(labels: Any, vocab_size: int) -> tuple[Any, Any]:
    """Returns labels as int32, with 0 for those that are not tokens.

    Also returns which are tokens: from 0 to `vocab_size` - 1. Backends would
    count the others from the end of the vocabulary, or take the last token.
    """
    labels = ops.cast(labels, "int32")
    are_tokens = (labels >= 0) & (labels < vocab_size)
    return ops.where(are_tokens, labels, 0), are_tokens


def fused_cross_entropy(
    labels: Any, logits: Any, weights: Any, label_smoothing: float = 0.0
) -> Any:
    """Returns the weighted sum of the cross-entropy of a `TiedEmbedding`.

    The labels and weights are `[B, T]`, the logits z `[B, T, V]`. The value,
    a float32 scalar, comes from the formula of `smoothed_cross_entropy`. With
    the factors x `[B, T, d_model]` and M `[V, d_model]` of z = x M^T, weights w
    and the smoothed targets y, the gradient comes from

        sum(w x (softmax(z) - y) M)  with constant w, softmax(z) and y,

    which is added with the value 0. This saves half of the passes over
    `[B, T, V]` values, for TensorFlow. `ops.custom_gradient` would do so too,
    but it keeps the graph of each model in memory until the process ends.
    """
    states, matrix, bias = factors_of(logits)
    matrix = ops.convert_to_tensor(matrix)
    if bias is not None:  # a last column of M, where x is 1
        matrix = ops.concatenate([matrix, bias[:, None]], axis=1)
        ones = ops.ones_like(states[..., :1])
        states = ops.concatenate([states, ones], axis=-1)
    vocab_size, width = matrix.shape
    labels, are_tokens = _known_labels(ops.reshape(labels, (-1,)), vocab_size)
    weights = ops.reshape(weights, (-1,))  # [N], N = B T
    x = ops.cast(ops.reshape(states, (-1, width)), "float32")
    dtype = logits.dtype
    logits = ops.stop_gradient(ops.reshape(logits, (-1, vocab_size)))
    kernel = ops.cast(matrix, dtype)
    other = label_smoothing / (vocab_size - 1)
    excess = 1.0 - label_smoothing - other  # of the label over other tokens

    highest = ops.cast(ops.max(logits, axis=-1, keepdims=True), "float32")
    exps = ops.exp(ops.cast(logits, "float32") - highest)
    total = ops.sum(exps, axis=-1, keepdims=True)  # [N, 1]
    label_logits = ops.take_along_axis(logits, labels[:, None], axis=-1)
    label_logits = ops.cast(label_logits, "float32")  # [N, 1]
    losses = (highest + ops.log(total) - excess * label_logits)[:, 0]
    # The sums of the logits, without reading them again.
    columns = ops.sum(ops.cast(kernel, "float32"), axis=0)
    logit_sums = ops.matmul(x, columns[:, None])[:, 0]
    losses = losses - other * logit_sums
    losses = _nan_unless(are_tokens, ops.stop_gradient(losses))
    # The loss of labels that are not tokens is NaN, even without a weight.
    value = ops.sum(ops.where(weights != 0, losses * weights, 0.0))

    # total (softmax(z) - excess y'), with one-hot labels y'. Where both are
    # close they have to cancel before they are rounded to half precision.
    places = ops.stack([ops.arange(ops.shape(labels)[0]), labels], axis=1)
    at_labels = ops.exp(label_logits - highest) - excess * total
    residuals = ops.scatter_update(
        ops.cast(exps, dtype), places, ops.cast(at_labels[:, 0], dtype)
    )
    products = ops.cast(ops.matmul(residuals, kernel), "float32")
    weights = weights * ops.cast(are_tokens, "float32")
    # Divided by the total where there are fewer values, `[N, d_model]`.
    products = products * (weights[:, None] / total)
    gradient = ops.sum(x * products) - other * ops.sum(weights * logit_sums)
    return value + (gradient - ops.stop_gradient(gradient))


@keras.saving.register_keras_serializable(package="keras_transformer")
class LabelSmoothedCrossEntropy(keras.losses.Loss):
    """Label-smoothed cross-entropy, averaged over tokens without padding.

    Every token has the same weight, whatever the length of its sequence.

    Args:
        label_smoothing: Label-smoothing ε, in [0, 1).
        pad_id: Label that is ignored. Other labels that are not tokens, such
            as -1 or -100, make the loss NaN, unless their weight is 0.
        reduction: Default: the mean over the labels that are not padding.
        name: Name of the loss.
        **kwargs: Other arguments of `keras.losses.Loss`.

    Call arguments:
        y_true: Labels, integer ids `[B, T]`.
        y_pred: Logits `[B, T, V]`.
        sample_weight: Weights `[B]` or `[B, T]`. Optional.

    Returns:
        Nats per token, a float32 scalar.

    Example:

    >>> import numpy as np, keras_transformer as kt
    >>> loss = kt.LabelSmoothedCrossEntropy(label_smoothing=0.1)
    >>> labels, logits = np.array([[5, 3, 0]]), np.zeros((1, 3, 10))
    >>> round(float(loss(labels, logits)), 4)  # log(10): uniform
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
        check_values(FRACTION, label_smoothing=label_smoothing)
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.label_smoothing = label_smoothing
        self.pad_id = pad_id

    def __call__(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> Any:
        weight = token_weights(y_true, self.pad_id, sample_weight)
        y_true = ops.where(weight == 0, 0, y_true)  # not NaN
        return super().__call__(y_true, y_pred, sample_weight=weight)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return smoothed_cross_entropy(y_true, y_pred, self.label_smoothing)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | dict(
            label_smoothing=self.label_smoothing, pad_id=self.pad_id
        )


def token_weights(labels: Any, pad_id: int, sample_weight: Any = None) -> Any:
    """Returns the weight of each label `[B, T]`, in float32: 0 for padding.

    The others have the weight of `sample_weight`, `[B]` or `[B, T]`, or 1.
    """
    weight = ops.cast(ops.not_equal(labels, pad_id), "float32")
    if len(weight.shape) > 2:
        raise ValueError(
            "Labels must be ids of shape [B, T]. Received: shape "
            f"{tuple(weight.shape)}. Convert one-hot labels by "
            "`keras.ops.argmax(labels, axis=-1)`."
        )
    if sample_weight is None:
        return weight
    sample_weight = ops.cast(sample_weight, "float32")
    if len(sample_weight.shape) == 1:  # one weight per sequence
        sample_weight = sample_weight[:, None]
    if len(sample_weight.shape) != len(weight.shape):
        raise ValueError(
            "sample_weight must have the shape [B] or [B, T]. Received: "
            f"shape {tuple(sample_weight.shape)} for labels of shape "
            f"{tuple(weight.shape)}"
        )
    return weight * sample_weight


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
