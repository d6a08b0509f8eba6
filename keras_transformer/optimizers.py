"""The paper's optimiser (section 5.3)."""

import keras

from keras_transformer.schedules import WarmupInverseSquareRoot


def adam(
    d_model: int, warmup_steps: int = 4000, scale: float = 1.0
) -> keras.optimizers.Adam:
    """Returns Adam(0.9, 0.98, 1e-9) with the paper's learning rate.

    Args:
        d_model: Width of the model.
        warmup_steps: Steps over which the learning rate rises.
        scale: Factor on the paper's learning rate.

    Example:

    >>> import keras_transformer as kt
    >>> kt.optimizers.adam(d_model=512).beta_2
    0.98
    """
    return keras.optimizers.Adam(
        WarmupInverseSquareRoot(d_model, warmup_steps, scale),
        beta_1=0.9,
        beta_2=0.98,
        epsilon=1e-9,
    )
