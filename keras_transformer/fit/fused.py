"""The loss in fewer passes over memory, for TensorFlow."""

from typing import Any

from keras import ops

from keras_transformer.losses import known_labels, nan_unless


def fused_cross_entropy(
    labels: Any, logits: Any, weights: Any, label_smoothing: float = 0.0
) -> Any:
    """Returns the weighted sum of the cross-entropy of a `TiedEmbedding`.

    The labels and weights are `[B, T]`, the logits z `[B, T, V]`. The value,
    a float32 scalar, is that of `losses.smoothed_cross_entropy`. With the
    factors x `[B, T, d_model]` and M `[V, d_model]` of z = x M^T, weights w and
    the smoothed targets y, the gradient is that of

        sum(w x (softmax(z) - y) M)  with constant w, softmax(z) and y,

    which is added with the value 0. It saves half of the passes over
    `[B, T, V]` values. `ops.custom_gradient` would do so too, but on TensorFlow
    it keeps the graph of each model in memory until the process ends.
    """
    states, matrix, bias = logits.factors
    matrix = ops.convert_to_tensor(matrix)
    if bias is not None:  # a last column of M, where x is 1
        matrix = ops.concatenate([matrix, bias[:, None]], axis=1)
        ones = ops.ones_like(states[..., :1])
        states = ops.concatenate([states, ones], axis=-1)
    vocab_size, width = matrix.shape
    labels, are_tokens = known_labels(ops.reshape(labels, (-1,)), vocab_size)
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
    losses = nan_unless(are_tokens, ops.stop_gradient(losses))
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
