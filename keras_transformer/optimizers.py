"""The paper's optimizer (section 5.3)."""

from typing import Any

import keras

from keras_transformer.fit.fused import FusedAdam
from keras_transformer.schedules import WarmupInverseSquareRoot


def adam(
    d_model: int, warmup_steps: int = 4000, scale: float = 1.0, **kwargs: Any
) -> keras.optimizers.Adam:
    """Returns Adam(0.9, 0.98, 1e-9) with the paper's learning rate.

    A `FusedAdam`, which keeps the moments of float16 and bfloat16 weights in
    float32: float16 cannot hold the epsilon.

    Args:
        d_model: Width of the model.
        warmup_steps: Updates over which the learning rate rises.
        scale: Factor on the paper's learning rate.
        **kwargs: Other arguments of Adam, for example `global_clipnorm`.

    Returns:
        A `keras.optimizers.Adam`.

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
