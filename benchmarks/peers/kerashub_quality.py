"""Trains a model of KerasHub's layers with `fit`; see quality.py."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from typing import Any

import keras
import keras_fit
import keras_hub
import kerashub
import quality
import workload
from keras import ops


class _Schedule(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, settings: quality.Settings) -> None:
        self.settings = settings

    def __call__(self, step: Any) -> Any:
        # Keras counts from 0.
        step = ops.cast(step, "float32") + 1.0
        return self.settings.learning_rate(step, ops.minimum)


def mean_loss(labels: Any, logits: Any) -> Any:
    """Returns the mean over the tokens of a batch.

    The mean of Keras with weights is one over all positions.
    """
    is_token = ops.cast(ops.not_equal(labels, quality.PAD), "float32")
    losses = kerashub.smoothed_cross_entropy(labels, logits)
    return ops.sum(losses * is_token) / ops.sum(is_token)


def main() -> None:
    """Trains and prints the result."""
    options = quality.parse_options(__doc__, "graph", "xla")
    settings = options.settings
    keras.utils.set_random_seed(settings.seed)
    model = kerashub.build_model(settings.shape, pad_id=quality.PAD)
    model.compile(
        keras.optimizers.Adam(
            _Schedule(settings),
            beta_1=workload.BETA_1,
            beta_2=workload.BETA_2,
            epsilon=workload.EPSILON,
        ),
        loss=mean_loss,
        jit_compile=options.mode == "xla",
    )
    keras_fit.fit_and_record(
        model, options, mean_loss, "KerasHub", keras_hub.__version__
    )


if __name__ == "__main__":
    main()
