"""Calls `fit` of a compiled Keras model; shared by ours and KerasHub's."""

import argparse
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import quality
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


class _Recording(keras.callbacks.Callback):
    """Counts the steps of a training, and ends it."""

    def __init__(self, recorder: quality.Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self.model.stop_training = self.recorder.after_step()


def as_inputs(ids: np.ndarray) -> tuple[dict, np.ndarray]:
    """Returns a batch of `quality.read_batches` as `fit` takes it."""
    source, target, labels = ids
    return {"source": source, "target": target}, labels


def fit_and_record(
    model: keras.Model,
    options: argparse.Namespace,
    loss: Callable[[Any, Any], Any],
    system: str,
    version: str,
) -> None:
    """Trains as `quality.train` does, and prints the result.

    Args:
        model: Compiled; takes `{"source": ids, "target": ids}`.
        options: From `quality.parse_options`.
        loss: Returns the loss of labels and logits.
        system: Name of the system.
        version: Its version.
    """
    ids = tf.TensorSpec([None, None], tf.int32)
    data = tf.data.Dataset.from_generator(
        lambda: map(as_inputs, quality.read_batches(options.data)),
        output_signature=({"source": ids, "target": ids}, ids),
    )

    def check(batch: np.ndarray) -> Any:
        inputs, labels = as_inputs(batch)
        return loss(labels, model(inputs, training=False))

    recorder = quality.Recorder(
        options, lambda: {w.path: w.numpy() for w in model.weights}, check
    )
    model.fit(
        data.prefetch(2),
        steps_per_epoch=len(np.load(options.data / "shapes.npy")),
        shuffle=False,
        verbose=0,
        callbacks=[_Recording(recorder)],
    )
    recorder.report(
        system,
        f"{version}, Keras {keras.__version__}, TensorFlow {tf.__version__}",
    )
