"""The paper's optimizer (section 5.3), as one operation per variable."""

from typing import Any

import keras
from keras import ops

from keras_transformer.fit.keras_overrides import (
    HALF,
    AdamInHalfPrecision,
    adam_moments,
)
from keras_transformer.schedules import WarmupInverseSquareRoot


def adam(
    d_model: int, warmup_steps: int = 4000, scale: float = 1.0, **kwargs: Any
) -> keras.optimizers.Adam:
    """Returns Adam(0.9, 0.98, 1e-9) with the paper's learning rate.

    Args:
        d_model: Width of the model.
        warmup_steps: Updates over which the learning rate rises.
        scale: Factor on the paper's learning rate.
        **kwargs: Other arguments of Adam, for example `global_clipnorm`.

    Returns:
        A `FusedAdam`, which is a `keras.optimizers.Adam`.

    Example:

    >>> import keras_transformer as kt
    >>> kt.optimizers.adam(d_model=512).beta_2
    0.98
    """
    return FusedAdam(
        WarmupInverseSquareRoot(d_model, warmup_steps, scale),
        beta_1=0.9,
        beta_2=0.98,
        epsilon=1e-9,
        **kwargs,
    )


@keras.saving.register_keras_serializable(package="keras_transformer")
class FusedAdam(AdamInHalfPrecision):
    """Keras' Adam; on TensorFlow it is one operation per variable.

    Keras' own takes about ten, which read and write memory: 26 ms instead of
    10 ms for 7.6M parameters on two cores. For variables in half precision the
    moments and the update are computed in float32, on every backend: squared
    gradients and the paper's epsilon would be 0 in float16, and 1 - beta_2 in
    bfloat16.
    """

    def add_variable(
        self, *args: Any, dtype: Any = None, name: Any = None, **kwargs: Any
    ) -> Any:
        # Keras assigns averages (EMA) to the weights without a cast.
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
