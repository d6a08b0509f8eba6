"""The paper's learning rate (section 5.3)."""

from typing import Any

import keras
from keras import ops

from keras_transformer.layers.common import check_sizes
from keras_transformer.support.fields import POSITIVE_NUMBER, check_values


@keras.saving.register_keras_serializable(package="keras_transformer")
class WarmupInverseSquareRoot(keras.optimizers.schedules.LearningRateSchedule):
    """scale * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5).

    With `scale=1` it is equation 3. Keras counts updates from 0 and the paper
    from 1: the first update has the learning rate of the paper's step 1.

    Args:
        d_model: Width of the model.
        warmup_steps: Updates over which the learning rate rises.
        scale: Factor, for models that tolerate a higher learning rate.

    Raises:
        ValueError: If an argument is not positive and finite.

    Example:

    >>> import keras_transformer as kt
    >>> schedule = kt.WarmupInverseSquareRoot(d_model=512, warmup_steps=4000)
    >>> round(float(schedule(3999)), 6)  # the highest rate
    0.000699
    """

    def __init__(
        self, d_model: int, warmup_steps: int = 4000, scale: float = 1.0
    ) -> None:
        check_sizes(d_model=d_model, warmup_steps=warmup_steps)
        check_values(POSITIVE_NUMBER, scale=scale)
        super().__init__()
        self.d_model = d_model
        self.warmup_steps = warmup_steps
        self.scale = scale

    def __call__(self, step: Any) -> Any:
        step = ops.cast(step, "float32") + 1.0
        rate = ops.minimum(ops.rsqrt(step), step * self.warmup_steps**-1.5)
        return self.scale * self.d_model**-0.5 * rate

    def get_config(self) -> dict[str, Any]:
        return {
            "d_model": self.d_model,
            "warmup_steps": self.warmup_steps,
            "scale": self.scale,
        }
