"""What a training runs on: the differences between the backends of Keras."""

import contextlib
import os
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import numpy as np

from keras_transformer.support.errors import InputError
from keras_transformer.train.data.batching import Batches
from keras_transformer.train.recipe import Recipe

if TYPE_CHECKING:
    import tensorflow as tf


class Worker(NamedTuple):
    """One of the processes that train together."""

    index: int
    count: int  # of all workers

    @property
    def is_chief(self) -> bool:
        """Whether this worker writes to the run."""
        return self.index == 0


class Devices:
    """The devices of a training. This class is for one device on PyTorch."""

    worker = Worker(0, 1)
    replicas = 1  # of all workers
    # Number of devices that share the rows of a batch, where XLA compiles a
    # step for each shape of a batch; else None.
    rows_multiple: int | None = None

    def __init__(self) -> None:
        import torch

        self.names = ["GPU:0" if torch.cuda.is_available() else "CPU"]

    def describe(self) -> str:
        """Returns the devices as one line of text."""
        text = f"{self.replicas} replica{'s'[: self.replicas > 1]}"
        text += f", on {', '.join(self.names)}"
        if self.worker.count > 1:
            text += f" of worker {self.worker.index} of {self.worker.count}"
        return text

    def scope(self) -> contextlib.AbstractContextManager:
        """Returns the context in which a model is created and fitted."""
        return contextlib.nullcontext()

    def check(self, recipe: Recipe) -> None:
        """Raises InputError if the backend lacks what a recipe needs."""
        backend = keras.backend.backend()
        steps = recipe.gradient_accumulation_steps
        if steps > 1 and backend != "tensorflow":
            raise InputError(
                "needs Keras on TensorFlow. Received: "
                f"{steps} with the backend {backend}",
                argument="gradient_accumulation_steps",
            )

    def make_deterministic(self) -> None:
        """Makes equal runs equal to the bit."""
        import torch

        # cuBLAS reads it when it starts.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)

    def for_fit(self, batches: Batches, among_workers: bool = False) -> Any:
        """Returns batches in the form that `fit` takes.

        With `among_workers` all workers have the same batches, and each takes
        its share; otherwise each has its own batches.
        """
        return batches

    def broadcast(self, value: np.ndarray) -> np.ndarray:
        """Returns the chief's array. Every worker must call it."""
        return value

    def check_same_arguments(self, values: Mapping[str, Any]) -> None:
        """Raises InputError unless this worker has the chief's arguments.

        Every worker must call it, the chief once its run exists. Paths may
        differ.
        """
        paths = ("data", "corpora", "init_from", "tokenizer")
        text = str({x: y for x, y in sorted(values.items()) if x not in paths})
        digest = np.array(zlib.crc32(text.encode()), np.int64)
        if digest != self.broadcast(digest):
            raise InputError(
                "All workers must have the same arguments. Received: "
                f"worker {self.worker.index} with {text}"
            )


class JaxDevices(Devices):
    """One device on JAX, or all local ones, which share each batch."""

    def __init__(self, strategy: str) -> None:
        devices = keras.distribution.list_devices()  # "gpu:0" and so on
        self._devices = devices[:1] if strategy == "single" else devices
        self.names = [name.upper() for name in self._devices]
        self.replicas = self.rows_multiple = len(self._devices)

    def scope(self) -> contextlib.AbstractContextManager:
        return keras.distribution.DataParallel(devices=self._devices).scope()

    def check(self, recipe: Recipe) -> None:
        super().check(recipe)
        flag = "--xla_gpu_deterministic_ops=true"
        flags = os.environ.get("XLA_FLAGS", "")
        is_gpu = self._devices[0].startswith("gpu")
        if recipe.deterministic and is_gpu and flag not in flags:
            raise InputError(
                f"needs XLA_FLAGS={flag} in the environment, with JAX on a "
                f"GPU. Received: XLA_FLAGS={flags}",
                argument="deterministic",
            )

    def make_deterministic(self) -> None:
        """Does nothing: XLA is deterministic, on GPUs with the flag."""


def open_devices(strategy: "tf.distribute.Strategy | str") -> Devices:
    """Returns the devices of a training.

    Args:
        strategy: As in `train`.

    Raises:
        InputError: If the backend has no such strategy.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        from keras_transformer.train.strategy import TensorFlowDevices

        return TensorFlowDevices(strategy)
    if strategy not in ("auto", "single"):
        raise InputError(
            f"must be auto or single with the backend {backend}. Received: "
            f"{strategy!r}. All others need Keras on TensorFlow.",
            argument="strategy",
        )
    return JaxDevices(strategy) if backend == "jax" else Devices()
