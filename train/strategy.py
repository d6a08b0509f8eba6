"""The devices that train, and what each gets of the data.

One device, several of a machine, or several machines.
"""

import contextlib
import functools
import json
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.errors import InputError

_PREFETCHED = 4  # batches a replica

_TF_CONFIG = (
    '{"cluster": {"worker": ["a:2222", "b:2222"]}, '
    '"task": {"type": "worker", "index": 0}}'
)

STRATEGIES = ("auto", "single", "mirrored", "multiworker")


def open_strategy(name: str = "auto") -> tf.distribute.Strategy:
    """Returns the strategy that a user names.

    Args:
        name: `"single"`: one device. `"mirrored"`: all GPUs of this machine
            or, without any, all logical CPUs. `"multiworker"`: the machines
            that the environment variable `TF_CONFIG` lists; it must be
            opened before anything else is computed. `"auto"`: the last if
            `TF_CONFIG` has several workers, else `"mirrored"` if there are
            several GPUs, else `"single"`.

    Raises:
        InputError: If there is no such strategy, or `TF_CONFIG` is no use.
    """
    if name not in STRATEGIES:
        raise InputError(
            f"strategy must be one of {', '.join(STRATEGIES)}. Received: "
            f"strategy={name!r}"
        )
    if name == "auto":
        if _workers_of_tf_config() > 1:
            name = "multiworker"
        else:
            gpus = len(tf.config.list_logical_devices("GPU"))
            name = "mirrored" if gpus > 1 else "single"
    if name == "mirrored":
        kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
        devices = [d.name for d in tf.config.list_logical_devices(kind)]
        return _mirrored(*devices)
    if name == "multiworker":
        if not _workers_of_tf_config():
            raise InputError(
                "The strategy multiworker needs the environment variable "
                f"TF_CONFIG, such as {_TF_CONFIG}. Received: none"
            )
        return _join_workers()
    return tf.distribute.get_strategy()


@functools.cache
def _mirrored(*devices: str) -> tf.distribute.Strategy:
    """Returns the one strategy of these devices.

    TensorFlow would take the reductions of another one, for another model,
    for those of the first, and refuse their shapes.
    """
    return tf.distribute.MirroredStrategy(devices)


def _join_workers() -> tf.distribute.Strategy:
    """Returns the strategy of `TF_CONFIG` once all its workers are there."""
    config = json.loads(os.environ["TF_CONFIG"])
    workers = config["cluster"]["worker"]
    own = workers.pop(config["task"]["index"])
    with contextlib.ExitStack() as stack:
        # It is native code that waits, and does not hear of Ctrl-C.
        if threading.current_thread() is threading.main_thread():
            before = signal.signal(signal.SIGINT, signal.SIG_DFL)
            stack.callback(signal.signal, signal.SIGINT, before)
        if workers:
            print(f"strategy: waiting for {', '.join(workers)}", flush=True)
        try:
            return tf.distribute.MultiWorkerMirroredStrategy()
        except tf.errors.OpError as error:
            raise InputError(
                "Each worker of TF_CONFIG must be HOST:PORT, and this one's "
                f"port free. Received: {own} ({error.message})"
            ) from error


def _workers_of_tf_config() -> int:
    text = os.environ.get("TF_CONFIG")
    if not text:
        return 0
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        workers = list(range(len(cluster["worker"])))
        if (
            list(cluster) == ["worker"]
            and isinstance(cluster["worker"], list)
            and task["type"] == "worker"
            and task["index"] in workers
        ):
            return len(workers)
    except (ValueError, KeyError, TypeError):
        pass
    raise InputError(
        f"TF_CONFIG must be like {_TF_CONFIG}, with all machines in the list "
        "worker, of which the first is the chief, and the index of this one. "
        f"Received: {text}"
    )


def describe(strategy: tf.distribute.Strategy) -> str:
    """Returns the strategy and its devices in a line."""
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        name = "multiworker"
    elif isinstance(strategy, tf.distribute.MirroredStrategy):
        name = "mirrored"
    else:
        gpus = tf.config.list_logical_devices("GPU")
        return f"single, on {'GPU:0' if gpus else 'CPU'}"
    devices = [
        device.partition("device:")[2] or device
        for device in strategy.extended.worker_devices
    ]
    index, count = worker(strategy)
    where = f", worker {index} of {count}" if count > 1 else ""
    return (
        f"{name}, {strategy.num_replicas_in_sync} replicas; here "
        f"{', '.join(devices)}{where}"
    )


def worker(strategy: tf.distribute.Strategy) -> tuple[int, int]:
    """Returns the index of this worker, and of how many. The chief is 0."""
    resolver = strategy.cluster_resolver
    if resolver is None or not resolver.cluster_spec():
        return 0, 1
    workers = resolver.cluster_spec().num_tasks("worker")
    return resolver.task_id, workers


def local_replicas(strategy: tf.distribute.Strategy) -> int:
    """Returns how many of the replicas this worker has."""
    return strategy.num_replicas_in_sync // worker(strategy)[1]


def distribute(
    batches: tf.data.Dataset,
    strategy: tf.distribute.Strategy,
    among_workers: bool = False,
) -> Any:
    """Gives each replica its share of the rows of every batch.

    The shares differ by a row if a batch does not divide, and may be empty;
    an exact loss does not mind.

    Args:
        batches: Dataset of `({"source", "target"}, labels)`, each with a
            position or not.
        strategy: The strategy.
        among_workers: Whether every worker has the same batches, and takes
            its share, rather than batches of its own.

    Returns:
        The dataset for `Training`. Positions are `[W, 2]` there, W workers,
        zero but for this worker and its first replica: the sum over replicas
        has every worker's.
    """
    index, workers = worker(strategy)
    replicas = local_replicas(strategy)
    parts = strategy.num_replicas_in_sync if among_workers else replicas
    first = index * replicas if among_workers else 0

    def shares(batch: tuple, position: tf.Tensor) -> tf.data.Dataset:
        rows = tf.shape(batch[1])[0]
        mine = tf.one_hot(index, workers, dtype=tf.int64)[:, None] * position

        def share(part: tf.Tensor) -> tuple:
            chosen = slice(part * rows // parts, (part + 1) * rows // parts)
            ids = tf.nest.map_structure(lambda ids: ids[chosen], batch)
            return ids, tf.where(part == first, mine, 0)

        own = tf.data.Dataset.range(
            first, first + replicas, output_type=tf.int32
        )
        return own.map(share)

    if isinstance(batches.element_spec[0], dict):
        batches = batches.map(
            lambda inputs, labels: ((inputs, labels), tf.zeros(2, tf.int64))
        )
    divided = batches.flat_map(shares).prefetch(_PREFETCHED * replicas)
    return strategy.distribute_datasets_from_function(lambda context: divided)


def broadcast_from_chief(
    strategy: tf.distribute.Strategy, value: Any
) -> np.ndarray:
    """Returns the chief's value on every worker.

    Args:
        strategy: The strategy. Every worker has to call this.
        value: Numbers of any shape; ignored on the other workers.
    """
    index, count = worker(strategy)
    if count == 1:
        return np.asarray(value)
    value = np.asarray(value if index == 0 else 0)
    # Up to six dimensions; then how many there are, and the kind of number.
    about = np.zeros(8, np.int64)
    about[: value.ndim] = value.shape
    about[-2:] = value.ndim, ord(value.dtype.char)
    *shape, dimensions, kind = _sum(strategy, about).astype(np.int64)
    shape, dtype = shape[:dimensions], np.dtype(chr(kind))
    if index:
        value = np.zeros(shape)
    if not value.size:
        return np.zeros(shape, dtype)
    return _sum(strategy, value).astype(dtype)


def _sum(strategy: tf.distribute.Strategy, value: np.ndarray) -> np.ndarray:
    """Returns the chief's part of a sum over workers, in float64."""
    summed = _adder(strategy)(value.astype(np.float64).ravel())
    local = strategy.experimental_local_results(summed)[0]
    return local.numpy().reshape(value.shape)


@functools.cache  # or it would be traced for each of many variables
def _adder(strategy: tf.distribute.Strategy) -> Callable:
    def add(value: tf.Tensor) -> tf.Tensor:
        context = tf.distribute.get_replica_context()
        if context.replica_id_in_sync_group != 0:
            value = tf.zeros_like(value)
        return context.all_reduce(tf.distribute.ReduceOp.SUM, value)

    return tf.function(
        lambda value: strategy.run(add, args=(value,)),
        [tf.TensorSpec([None], tf.float64)],
    )
