"""Distribution strategies: one device, several, or several machines."""

import contextlib
import functools
import logging
import os
import signal
import threading
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import check_values, one_of
from keras_transformer.train.data.batching import Batches, for_fit
from keras_transformer.train.devices import Devices, Worker

logger = logging.getLogger(__name__)

Strategy = tf.distribute.Strategy
_Resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver

_PREFETCHED = 4  # batches per replica

# TensorFlow confuses the collective reductions of two strategies on the same
# devices, and rejects their shapes.
_mirrored = functools.cache(tf.distribute.MirroredStrategy)


def open_strategy(name: str = "auto") -> Strategy:
    """Returns a strategy by name.

    Args:
        name: `"single"`: one device. `"mirrored"`: all GPUs of this machine
            or, without any, all logical CPUs. `"multiworker"`: the machines
            in the environment variable `TF_CONFIG`; it must be opened before
            TensorFlow computes anything. `"auto"`: `"multiworker"` if
            `TF_CONFIG` lists several workers, else `"mirrored"` if there are
            several GPUs, else `"single"`.

    Raises:
        InputError: If there is no such strategy, or `TF_CONFIG` is missing
            or invalid.
    """
    names = one_of("auto", "single", "mirrored", "multiworker")
    check_values(names, strategy=name)
    config = os.environ.get("TF_CONFIG")
    if name == "multiworker" or (name == "auto" and config):
        try:
            resolver = _Resolver()
            if name == "multiworker" or this_worker(resolver).count > 1:
                return _join_workers(resolver)
        except (tf.errors.OpError, TypeError, ValueError) as error:
            raise InputError(
                "TF_CONFIG must list all workers as HOST:PORT and identify "
                "this one, whose port must be free. Received: "
                f"TF_CONFIG={config} ({error})"
            ) from error
    gpus = tf.config.list_logical_devices("GPU")
    if name == "mirrored" or (name == "auto" and len(gpus) > 1):
        devices = gpus or tf.config.list_logical_devices("CPU")
        return _mirrored(tuple(device.name for device in devices))
    return tf.distribute.get_strategy()


def _join_workers(resolver: _Resolver) -> Strategy:
    """Returns the strategy of all workers once they are connected."""
    cluster = resolver.cluster_spec()
    this = cluster.task_address(resolver.task_type, resolver.task_id)
    others = [x for job in cluster.as_dict().values() for x in job if x != this]
    with contextlib.ExitStack() as stack:
        # TensorFlow waits in native code, where Python's handlers do not run.
        if threading.current_thread() is threading.main_thread():
            interrupt = signal.signal(signal.SIGINT, signal.SIG_DFL)
            stack.callback(signal.signal, signal.SIGINT, interrupt)
            # Workers can only save together, so SIGTERM saves nothing.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if others:
            logger.info(f"strategy: waiting for {', '.join(others)}")
        return tf.distribute.MultiWorkerMirroredStrategy()


def this_worker(resolver: _Resolver | None) -> Worker:
    """Returns this worker of a cluster. A job `chief` precedes the workers."""
    jobs = resolver.cluster_spec().as_dict() if resolver else {}
    if not jobs:
        return Worker(0, 1)
    chiefs, workers = (len(jobs.get(x, ())) for x in ("chief", "worker"))
    before = chiefs if resolver.task_type == "worker" else 0
    return Worker(before + resolver.task_id, chiefs + workers)


class TensorFlowDevices(Devices):
    """The devices of a strategy of TensorFlow."""

    def __init__(self, strategy: Strategy | str) -> None:
        if isinstance(strategy, str):
            strategy = open_strategy(strategy)
        self.strategy = strategy
        self.worker = this_worker(strategy.cluster_resolver)
        self.replicas = strategy.num_replicas_in_sync
        names = [x.name for x in tf.config.list_logical_devices("GPU")[:1]]
        if self.replicas > 1:
            names = strategy.extended.worker_devices
        self.names = [x.rpartition("device:")[2] for x in names or ["CPU"]]

    def scope(self) -> contextlib.AbstractContextManager:
        return self.strategy.scope()

    def make_deterministic(self) -> None:
        tf.config.experimental.enable_op_determinism()

    def for_fit(self, batches: Batches, among_workers: bool = False) -> Any:
        return self.distribute(for_fit(batches), among_workers)

    def distribute(
        self, batches: tf.data.Dataset, among_workers: bool = False
    ) -> Any:
        """Returns a dataset in the form that `fit` takes; see `for_fit`.

        Keras splits a batch over the replicas of one worker. With several
        workers, this method does. Shares differ by at most one row, and may
        be empty.
        """
        index, workers = self.worker
        if workers == 1:
            return batches
        replicas = self.strategy.num_replicas_in_sync // workers
        first = index * replicas if among_workers else 0
        parts = workers * replicas if among_workers else replicas

        def shares(*batch: Any) -> tf.data.Dataset:
            rows = tf.shape(batch[1])[0]

            def share(part: tf.Tensor) -> tuple:
                chosen = slice(part * rows // parts, (part + 1) * rows // parts)
                return tf.nest.map_structure(lambda ids: ids[chosen], batch)

            numbers = tf.range(first, first + replicas)
            return tf.data.Dataset.from_tensor_slices(numbers).map(share)

        divided = batches.flat_map(shares).prefetch(_PREFETCHED * replicas)
        return self.strategy.distribute_datasets_from_function(
            lambda context: divided
        )

    def broadcast(self, value: np.ndarray) -> np.ndarray:
        if self.worker.count == 1:
            return value
        with self.strategy.scope():  # a new variable has the chief's value
            return tf.Variable(value).numpy()
