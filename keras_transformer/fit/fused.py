"""Fused operations for training: fewer passes over memory on TensorFlow.

They compute `smoothed_cross_entropy` and Keras' Adam.
"""

from typing import Any

import keras
from keras import ops

from keras_transformer.fit.keras_overrides import (
    HALF,
    AdamInHalfPrecision,
    adam_moments,
)
from keras_transformer.losses import known_labels


def fused_linear_cross_entropy(
    labels: Any,
    states: Any,
    matrix: Any,
    bias: Any = None,
    label_smoothing: float = 0.0,
) -> tuple[Any, Any]:
    """Returns the cross-entropy of logits z = states matrix^T + bias, and z.

    The labels are `[B, T]`, the states `[B, T, d_model]` in any float dtype,
    the matrix `[V, d_model]` and the bias `[V]`. The losses, float32 `[B, T]`,
    equal `losses.smoothed_cross_entropy`; the logits `[B, T, V]`, in the dtype
    of the states, have no gradient. With p = softmax(z), one-hot labels y,
    upstream gradient u, e = `label_smoothing`, other = e / (V - 1) and
    excess = 1 - e - other, the gradient of the losses is

        states:  u (p - excess y) matrix      - u other sum(matrix)
        matrix:  (p - excess y)^T (u states)  - other sum(u states)

    where excess y + other is the smoothed target. Without the gradient of the
    logits, half of the passes over `[B, T, V]` values are saved.
    """
    import tensorflow as tf

    # The gradient of a variable would need a different form.
    matrix, shape = tf.convert_to_tensor(matrix), ops.shape(labels)
    if bias is not None:  # as a last column of the matrix, times 1
        matrix = ops.concatenate([matrix, bias[:, None]], axis=1)
        ones = ops.ones_like(states[..., :1])
        states = ops.concatenate([states, ones], axis=-1)
    vocab_size, width = matrix.shape
    labels, are_tokens = known_labels(labels, vocab_size)
    labels = ops.reshape(labels, (-1,))  # [N], N = B T
    other = label_smoothing / (vocab_size - 1)
    excess = 1.0 - label_smoothing - other  # of the label over other tokens
    dtype = states.dtype

    @ops.custom_gradient
    def losses_and_logits(states: Any, kernel: Any) -> tuple[Any, Any]:
        cast_kernel = ops.cast(kernel, dtype)  # [V, width]
        logits = ops.matmul(states, ops.transpose(cast_kernel))  # [N, V]
        highest = ops.cast(ops.max(logits, axis=-1, keepdims=True), "float32")
        exps = ops.exp(ops.cast(logits, "float32") - highest)
        total = ops.sum(exps, axis=-1, keepdims=True)  # [N, 1]
        label_logits = ops.take_along_axis(logits, labels[:, None], axis=-1)
        label_logits = ops.cast(label_logits, "float32")  # [N, 1]
        losses = highest + ops.log(total) - excess * label_logits
        column_sums = ops.sum(ops.cast(cast_kernel, "float32"), axis=0)
        x = ops.cast(states, "float32")
        if label_smoothing:
            # The sum of the logits, without reading them again.
            logit_sums = ops.matmul(x, column_sums[:, None])  # [N, 1]
            losses = losses - other * logit_sums
        # total * (p - excess y). Where p is close to y they have to cancel
        # before they are rounded to a half-precision dtype.
        places = ops.stack([ops.arange(ops.shape(labels)[0]), labels], axis=1)
        at_labels = ops.exp(label_logits - highest) - excess * total
        residuals = ops.scatter_update(
            ops.cast(exps, dtype), places, ops.cast(at_labels[:, 0], dtype)
        )

        def gradient(*upstream: Any) -> Any:
            weight = upstream[0][:, None]  # [N, 1]
            # Divided by the total where there are fewer values.
            share = weight / total
            to_states = ops.matmul(residuals, cast_kernel)
            to_states = share * ops.cast(to_states, "float32")
            shared = ops.cast(share * x, dtype)
            to_kernel = ops.matmul(ops.transpose(residuals), shared)
            to_kernel = ops.cast(to_kernel, "float32")
            if label_smoothing:
                to_states = to_states - other * weight * column_sums
                to_kernel = to_kernel - other * ops.sum(weight * x, axis=0)
            to_kernel = ops.cast(to_kernel, kernel.dtype)
            return ops.cast(to_states, dtype), to_kernel

        return (losses[:, 0], logits), gradient

    losses, logits = losses_and_logits(ops.reshape(states, (-1, width)), matrix)
    logits = ops.reshape(logits, (*shape, vocab_size))
    losses = ops.reshape(losses, shape)
    return ops.where(are_tokens, losses, float("nan")), logits


@keras.saving.register_keras_serializable(package="keras_transformer")
class FusedAdam(AdamInHalfPrecision):
    """Keras' Adam; on TensorFlow it is one operation per variable.

    Keras' own takes about ten, which read and write memory: 26 ms instead of
    10 ms for 7.6M parameters on two cores. For variables in half precision the
    moments and the update are computed in float32, on every backend: float16
    cannot hold the paper's epsilon, 1e-9.
    """

    def add_variable(
        self, *args: Any, dtype: Any = None, name: Any = None, **kwargs: Any
    ) -> Any:
        # Squared gradients and epsilon would be 0 in float16, and 1 - beta_2 in
        # bfloat16. Keras assigns averages (EMA) to the weights without a cast.
        if dtype in HALF and not str(name).endswith("average"):
            dtype = "float32"
        return super().add_variable(*args, dtype=dtype, name=name, **kwargs)

    def update_step(
        self, gradient: Any, variable: Any, learning_rate: Any
    ) -> None:
        first, second = adam_moments(self, variable)
        is_alike = variable.dtype == first.dtype
        is_fused = keras.backend.backend() == "tensorflow"
        if self.amsgrad or (is_alike and not is_fused):
            super().update_step(gradient, variable, learning_rate)
            return
        gradient = ops.cast(gradient, first.dtype)
        rate = ops.cast(learning_rate, first.dtype)
        step = ops.cast(self.iterations + 1, first.dtype)
        beta_1 = ops.cast(self.beta_1, first.dtype)
        beta_2 = ops.cast(self.beta_2, first.dtype)
        if is_alike:
            import tensorflow as tf

            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=first.value.handle,
                v=second.value.handle,
                beta1_power=beta_1**step,
                beta2_power=beta_2**step,
                lr=rate,
                beta1=beta_1,
                beta2=beta_2,
                epsilon=self.epsilon,
                grad=gradient,
            )
            return
        # The operation needs a single dtype.
        self.assign_add(first, (1.0 - beta_1) * (gradient - first))
        self.assign_add(second, (1.0 - beta_2) * (gradient**2 - second))
        scale = ops.sqrt(1.0 - beta_2**step) / (1.0 - beta_1**step)
        change = rate * scale * first / (ops.sqrt(second) + self.epsilon)
        self.assign_sub(variable, change)
