"""Distribution strategies: one device, several, or several machines."""

import contextlib
import functools
import json
import logging
import os
import signal
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_transformer.support.errors import InputError
from keras_transformer.train.cluster import read_cluster

logger = logging.getLogger(__name__)

Strategy = tf.distribute.Strategy

_PREFETCHED = 4  # batches per replica

# TensorFlow confuses the collective reductions of a second strategy on the same
# devices with those of the first, and rejects their shapes.
_mirrored = functools.cache(tf.distribute.MirroredStrategy)

STRATEGIES = ("auto", "single", "mirrored", "multiworker")


def open_strategy(name: str = "auto", cluster: str | None = None) -> Strategy:
    """Returns a strategy by name.

    Args:
        name: `"single"`: one device. `"mirrored"`: all GPUs of this machine
            or, without any, all logical CPUs. `"multiworker"`: the machines
            that the environment variable `TF_CONFIG` lists; it must be
            opened before anything else is computed. `"auto"`: multiworker if
            `TF_CONFIG` has several workers, else `"mirrored"` if there are
            several GPUs, else `"single"`.
        cluster: Whose variables name the workers: `"tf_config"` (the default,
            if it is set), `"slurm"` or `"kubernetes"`. `TF_CONFIG` is set from
            them.

    Raises:
        InputError: If there is no such strategy or cluster, or the variables
            of the environment are invalid.
    """
    if name not in STRATEGIES:
        raise InputError(
            f"strategy must be one of {', '.join(STRATEGIES)}. Received: "
            f"strategy={name!r}"
        )
    if name in ("single", "mirrored") and cluster is not None:
        raise InputError(
            "A cluster needs the strategy auto or multiworker. Received: "
            f"strategy={name!r}, cluster={cluster!r}"
        )
    has_tf_config = name == "auto" and os.environ.get("TF_CONFIG")
    if cluster or has_tf_config or name == "multiworker":
        workers, index = read_cluster(cluster or "tf_config")
        if name == "multiworker" or len(workers) > 1:
            return _join_workers(workers, index)
    gpus = tf.config.list_logical_devices("GPU")
    if name == "mirrored" or (name == "auto" and len(gpus) > 1):
        devices = gpus or tf.config.list_logical_devices("CPU")
        return _mirrored(tuple(device.name for device in devices))
    return tf.distribute.get_strategy()


def _join_workers(workers: Sequence[str], index: int) -> Strategy:
    """Returns the strategy of all workers when they are connected."""
    task = {"type": "worker", "index": index}
    config = {"cluster": {"worker": workers}, "task": task}
    os.environ["TF_CONFIG"] = json.dumps(config)
    others = [*workers[:index], *workers[index + 1 :]]
    with contextlib.ExitStack() as stack:
        # Native code waits for the workers, and ignores Python's handlers.
        if threading.current_thread() is threading.main_thread():
            interrupt = signal.signal(signal.SIGINT, signal.SIG_DFL)
            stack.callback(signal.signal, signal.SIGINT, interrupt)
            # Workers save together, not when one of them is terminated.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if others:
            logger.info(f"strategy: waiting for {', '.join(others)}")
        try:
            return tf.distribute.MultiWorkerMirroredStrategy()
        except tf.errors.OpError as error:
            raise InputError(
                "Each worker of TF_CONFIG must be HOST:PORT, and the port of "
                f"this one must be free. Received: {workers[index]} "
                f"({error.message})"
            ) from error


def describe(strategy: Strategy) -> str:
    """Returns the strategy and its devices as one line of text."""
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        name = "multiworker"
    elif isinstance(strategy, tf.distribute.MirroredStrategy):
        name = "mirrored"
    else:
        gpus = tf.config.list_logical_devices("GPU")
        return f"single, on {'GPU:0' if gpus else 'CPU'}"
    devices = strategy.extended.worker_devices
    devices = ", ".join(device.rpartition("device:")[2] for device in devices)
    index, count = worker(strategy)
    where = f", worker {index} of {count}" if count > 1 else ""
    replicas = strategy.num_replicas_in_sync
    return f"{name}, {replicas} replicas; here {devices}{where}"


class Worker(NamedTuple):
    """One of the processes that train together."""

    index: int
    count: int  # of all workers

    @property
    def is_chief(self) -> bool:
        """Whether this worker writes the run."""
        return self.index == 0


def worker(strategy: Strategy) -> Worker:
    """Returns this worker of a strategy."""
    resolver = strategy.cluster_resolver
    if resolver is None or not resolver.cluster_spec():
        return Worker(0, 1)
    workers = resolver.cluster_spec().num_tasks("worker")
    return Worker(resolver.task_id, workers)


def distribute(
    batches: tf.data.Dataset, strategy: Strategy, among_workers: bool = False
) -> Any:
    """Returns batches as `fit` takes them under a strategy.

    Keras splits them over the replicas of one worker. Over several workers
    it cannot: there each replica gets its share of the rows here. The shares
    differ by a row if a batch does not divide, and may be empty. Every worker
    has batches of its own or, `among_workers`, takes its share of the same.
    """
    index, workers = worker(strategy)
    if workers == 1:
        return batches
    replicas = strategy.num_replicas_in_sync // workers
    if not among_workers:
        index, workers = 0, 1
    first, parts = index * replicas, workers * replicas

    def shares(*batch: Any) -> tf.data.Dataset:
        rows = tf.shape(batch[1])[0]

        def share(part: tf.Tensor) -> tuple:
            chosen = slice(part * rows // parts, (part + 1) * rows // parts)
            return tf.nest.map_structure(lambda ids: ids[chosen], batch)

        own = tf.range(first, first + replicas)
        return tf.data.Dataset.from_tensor_slices(own).map(share)

    divided = batches.flat_map(shares).prefetch(_PREFETCHED * replicas)
    return strategy.distribute_datasets_from_function(lambda context: divided)


def broadcast_from_chief(strategy: Strategy, value: np.ndarray) -> np.ndarray:
    """Returns the chief's numbers; all workers call it, with one shape."""
    if worker(strategy)[1] == 1:
        return value
    with strategy.scope():  # a new variable has the chief's value everywhere
        return tf.Variable(value).numpy()


def gather_from_workers(strategy: Strategy, value: np.ndarray) -> np.ndarray:
    """Returns the integers of all, which all call it, `[workers, ...]`."""
    index, workers = worker(strategy)
    values = np.zeros((workers, *value.shape), value.dtype)
    values[index] = value
    if workers == 1:
        return values
    copies = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(values)  # on each replica of this worker
    )
    total = strategy.reduce("SUM", copies, axis=None).numpy()
    return total // (strategy.num_replicas_in_sync // workers)
