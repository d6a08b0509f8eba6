"""Times `fit` of a compiled Keras model; shared by ours and KerasHub's."""

import argparse
import time
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import workload


class _Clock(keras.callbacks.Callback):
    """Measures the duration of each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self.seconds.append(time.perf_counter() - self.start)


def batches(options: argparse.Namespace) -> tf.data.Dataset:
    """Returns one batch, repeated: `({"source", "target"}, labels)`."""
    source, target = workload.random_ids(options.shape)
    batch = ({"source": source, "target": target}, target)
    return tf.data.Dataset.from_tensors(batch).repeat()


def fit_and_report(
    model: keras.Model,
    data: Any,
    options: argparse.Namespace,
    system: str,
    version: str,
) -> None:
    """Calls `fit` and prints the result; a repetition is an epoch.

    Args:
        model: Compiled; takes `{"source": ids, "target": ids}`.
        data: What `fit` takes, endless.
        options: From `workload.parse_options`.
        system: Name of the system.
        version: Its version.
    """
    clock = _Clock()
    history = model.fit(
        data,
        steps_per_epoch=options.steps,
        epochs=1 + options.repetitions,
        shuffle=False,
        verbose=0,
        callbacks=[clock],
    )
    workload.report(
        options,
        system,
        f"{version}, Keras {keras.__version__}, TensorFlow {tf.__version__}",
        sum(int(np.prod(w.shape)) for w in model.trainable_weights),
        clock.seconds[1:],
        history.history["loss"],
    )
