"""Trains this library's model with `Transformer.fit`; see quality.py."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from importlib.metadata import version

import keras
import keras_fit
import ours
import quality
import workload

import keras_transformer as kt


def main() -> None:
    """Trains and prints the result."""
    options = quality.parse_options(__doc__, "graph")
    settings = options.settings
    keras.utils.set_random_seed(settings.seed)
    # The names of the weights begin with that of the model.
    config = ours.build_config(settings.shape)
    model = kt.Transformer(config, name="transformer")
    loss = kt.LabelSmoothedCrossEntropy(workload.LABEL_SMOOTHING)
    model.compile(
        kt.optimizers.adam(
            settings.shape.d_model,
            settings.warmup_steps,
            settings.learning_rate_scale,
        ),
        loss,
    )
    keras_fit.fit_and_record(
        model, options, loss, "ours", version("keras-transformer-nmt")
    )


if __name__ == "__main__":
    main()
