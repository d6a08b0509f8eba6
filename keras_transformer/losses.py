"""Label-smoothed cross-entropy (section 5.4).

Letters: B = batch, T = target length, V = vocabulary.
"""

from typing import Any

import keras
from keras import ops


def smoothed_cross_entropy(
    labels: Any, logits: Any, label_smoothing: float = 0.0
) -> Any:
    """Returns the cross-entropy of each token with its smoothed target.

    The target gives 1 - e to the right token and e / (V - 1) to each other
    one, e being `label_smoothing`: the definition of the paper's own code.
    As its entries sum to one, the cross-entropy is

        logsumexp(z) - (1 - e - e / (V - 1)) z[label] - e / (V - 1) sum(z)

    and its gradient softmax(z) less the target. Between the forward and the
    backward pass only the logits and `[B, T]` values are kept.

    Args:
        labels: Integer ids `[B, T]`.
        logits: z, `[B, T, V]`, of any float dtype; computed in float32.
        label_smoothing: e, in [0, 1). With 0 the result is -log P(label).

    Returns:
        Nats a token, float32 `[B, T]`.
    """
    labels = ops.cast(labels, "int32")[..., None]
    vocab_size = logits.shape[-1]
    other = label_smoothing / (vocab_size - 1)
    excess = 1.0 - label_smoothing - other  # of the right token over another

    # The gradient that TensorFlow derives for z[label] scatters into a tensor
    # of zeros: it took an eighth of a training step on CPU.
    @ops.custom_gradient
    def loss(logits: Any) -> tuple[Any, Any]:
        z = ops.cast(logits, "float32")
        normaliser = ops.logsumexp(z, axis=-1, keepdims=True)
        right = ops.take_along_axis(z, labels, axis=-1)
        losses = normaliser - excess * right
        if label_smoothing:
            losses = losses - other * ops.sum(z, axis=-1, keepdims=True)

        def gradient(*args: Any, upstream: Any = None) -> Any:
            upstream = args[0] if upstream is None else upstream
            softmax = ops.exp(ops.cast(logits, "float32") - normaliser)
            is_right = ops.equal(ops.arange(vocab_size), labels)
            target = ops.where(is_right, excess + other, other)
            of_logits = upstream[..., None] * (softmax - target)
            return ops.cast(of_logits, logits.dtype)

        return losses[..., 0], gradient

    return loss(logits)


def tied_cross_entropies(
    labels: Any, states: Any, embeddings: Any, label_smoothing: float = 0.0
) -> Any:
    """Returns the losses of the logits z = states embeddings^T.

    The values are those of `smoothed_cross_entropy`. The gradient is found
    without that of the logits: with p = softmax(z), one-hot labels y and
    weights u from above,

        states:      u (p - excess y) embeddings   - u other sum(embeddings)
        embeddings:  (p - excess y)^T (u states)   - other sum(u states)

    where excess y + other is the smoothed target. This saves half of the
    passes over `[N, V]` values, which took a tenth of a training step on CPU.

    Args:
        labels: Integer ids `[N]`.
        states: `[N, d_model]`, of any float dtype; the logits have it too.
        embeddings: The tied embedding, `[V, d_model]`.
        label_smoothing: Probability taken from the right token, in [0, 1).

    Returns:
        Nats a token, float32 `[2, N]`: against the smoothed target, and
        -log P(label), which has no gradient.
    """
    labels = ops.cast(labels, "int32")
    vocab_size = embeddings.shape[0]
    other = label_smoothing / (vocab_size - 1)
    excess = 1.0 - label_smoothing - other  # of the right token over another
    dtype = states.dtype

    @ops.custom_gradient
    def both(states: Any, embeddings: Any) -> tuple[Any, Any]:
        matrix = ops.cast(embeddings, dtype)
        logits = ops.matmul(states, ops.transpose(matrix))  # [N, V]
        highest = ops.cast(ops.max(logits, axis=-1, keepdims=True), "float32")
        exps = ops.exp(ops.cast(logits, "float32") - highest)
        total = ops.sum(exps, axis=-1, keepdims=True)  # [N, 1]
        normaliser = highest + ops.log(total)
        right = ops.take_along_axis(logits, labels[:, None], axis=-1)
        right = ops.cast(right, "float32")  # [N, 1]
        smoothed = normaliser - excess * right
        column_sums = ops.sum(ops.cast(matrix, "float32"), axis=0)
        x = ops.cast(states, "float32")
        if label_smoothing:
            # The sum of the logits, without reading them again.
            every = ops.matmul(x, column_sums[:, None])  # [N, 1]
            smoothed = smoothed - other * every
        losses = ops.stack([smoothed, normaliser - right])[..., 0]
        # total * (p - excess y). Where p is close to y they have to cancel
        # before they are rounded to a half-precision dtype.
        places = ops.stack([ops.arange(ops.shape(labels)[0]), labels], axis=1)
        at_labels = ops.exp(right - highest) - excess * total
        residuals = ops.scatter_update(
            ops.cast(exps, dtype), places, ops.cast(at_labels[:, 0], dtype)
        )

        def gradient(*args: Any, upstream: Any = None) -> Any:
            upstream = args[0] if upstream is None else upstream
            weight = upstream[0][:, None]  # [N, 1]
            # Divided by the total where there are fewer values.
            share = weight / total
            to_states = ops.cast(ops.matmul(residuals, matrix), "float32")
            to_states = share * to_states
            shared = ops.cast(share * x, dtype)
            to_rows = ops.matmul(ops.transpose(residuals), shared)
            to_rows = ops.cast(to_rows, "float32")
            if label_smoothing:
                to_states = to_states - other * weight * column_sums
                to_rows = to_rows - other * ops.sum(weight * x, axis=0)
            return ops.cast(to_states, dtype), to_rows

        return losses, gradient

    return both(
        ops.convert_to_tensor(states), ops.convert_to_tensor(embeddings)
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
