"""Distribution strategies: one device, several, or several machines."""

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

from keras_transformer.support.errors import InputError

_PREFETCHED = 4  # batches per replica

_TF_CONFIG = (
    '{"cluster": {"worker": ["a:2222", "b:2222"]}, '
    '"task": {"type": "worker", "index": 0}}'
)

STRATEGIES = ("auto", "single", "mirrored", "multiworker")


def open_strategy(name: str = "auto") -> tf.distribute.Strategy:
    """Returns a strategy by name.

    Args:
        name: `"single"`: one device. `"mirrored"`: all GPUs of this machine
            or, without any, all logical CPUs. `"multiworker"`: the machines
            that the environment variable `TF_CONFIG` lists; it must be
            opened before anything else is computed. `"auto"`: multiworker if
            `TF_CONFIG` has several workers, else `"mirrored"` if there are
            several GPUs, else `"single"`.

    Raises:
        InputError: If there is no such strategy, or `TF_CONFIG` is invalid.
    """
    if name not in STRATEGIES:
        raise InputError(
            f"strategy must be one of {', '.join(STRATEGIES)}. Received: "
            f"strategy={name!r}"
        )
    if name == "auto":
        if workers_of_tf_config() > 1:
            name = "multiworker"
        else:
            gpus = len(tf.config.list_logical_devices("GPU"))
            name = "mirrored" if gpus > 1 else "single"
    if name == "mirrored":
        kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
        devices = [d.name for d in tf.config.list_logical_devices(kind)]
        return _mirrored(*devices)
    if name == "multiworker":
        if not workers_of_tf_config():
            raise InputError(
                "The strategy multiworker needs the environment variable "
                f"TF_CONFIG, such as {_TF_CONFIG}. Received: no TF_CONFIG"
            )
        return _join_workers()
    return tf.distribute.get_strategy()


@functools.cache
def _mirrored(*devices: str) -> tf.distribute.Strategy:
    """Returns the only strategy of these devices in this process.

    TensorFlow confuses the collective reductions of a second one with those
    of the first, and rejects their shapes.
    """
    return tf.distribute.MirroredStrategy(devices)


def _join_workers() -> tf.distribute.Strategy:
    """Returns the strategy of `TF_CONFIG` when all workers are connected."""
    config = json.loads(os.environ["TF_CONFIG"])
    workers = config["cluster"]["worker"]
    own = workers.pop(config["task"]["index"])
    with contextlib.ExitStack() as stack:
        # Native code waits for the workers, and ignores Python's handlers.
        if threading.current_thread() is threading.main_thread():
            interrupt = signal.signal(signal.SIGINT, signal.SIG_DFL)
            stack.callback(signal.signal, signal.SIGINT, interrupt)
            # Workers save together, not when one of them is terminated.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if workers:
            print(f"strategy: waiting for {', '.join(workers)}", flush=True)
        try:
            return tf.distribute.MultiWorkerMirroredStrategy()
        except tf.errors.OpError as error:
            raise InputError(
                "Each worker of TF_CONFIG must be HOST:PORT, and the port of "
                f"this one must be free. Received: {own} ({error.message})"
            ) from error


def workers_of_tf_config() -> int:
    """Returns the number of workers in `TF_CONFIG`; 0 without it.

    Raises:
        InputError: If it is invalid.
    """
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
        f"TF_CONFIG must be like {_TF_CONFIG}: all machines in the list "
        "worker, the chief first, and the index of this machine. "
        f"Received: {text}"
    )


def check_one_worker(command: str) -> None:
    """Refuses several workers for a command that only one may run.

    Raises:
        InputError: If `TF_CONFIG` has several workers, or is invalid.
    """
    workers = workers_of_tf_config()
    if workers > 1:
        raise InputError(
            f"`{command}` runs on one machine; only `train` uses several. "
            f"Received: TF_CONFIG with {workers} workers. Start it on one of "
            "them, without TF_CONFIG."
        )


def describe(strategy: tf.distribute.Strategy) -> str:
    """Returns the strategy and its devices as one line of text."""
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        name = "multiworker"
    elif isinstance(strategy, tf.distribute.MirroredStrategy):
        name = "mirrored"
    else:
        gpus = tf.config.list_logical_devices("GPU")
        return f"single, on {'GPU:0' if gpus else 'CPU'}"
    devices = ", ".join(
        device.partition("device:")[2] or device
        for device in strategy.extended.worker_devices
    )
    index, count = worker(strategy)
    where = f", worker {index} of {count}" if count > 1 else ""
    replicas = strategy.num_replicas_in_sync
    return f"{name}, {replicas} replicas; here {devices}{where}"


def worker(strategy: tf.distribute.Strategy) -> tuple[int, int]:
    """Returns the index of this worker (0: the chief) and their number."""
    resolver = strategy.cluster_resolver
    if resolver is None or not resolver.cluster_spec():
        return 0, 1
    workers = resolver.cluster_spec().num_tasks("worker")
    return resolver.task_id, workers


def distribute(
    batches: tf.data.Dataset,
    strategy: tf.distribute.Strategy,
    among_workers: bool = False,
) -> Any:
    """Returns batches as `fit` takes them under a strategy.

    Keras splits them over the replicas of one worker. Over several workers
    it cannot: there each replica gets its share of the rows here. The shares
    differ by a row if a batch does not divide, and may be empty.

    Args:
        batches: Dataset of `({"source", "target"}, labels)`.
        strategy: The strategy.
        among_workers: Whether every worker has the same batches and takes
            its share, rather than batches of its own.
    """
    index, workers = worker(strategy)
    if workers == 1:
        return batches
    replicas = strategy.num_replicas_in_sync // workers
    parts = strategy.num_replicas_in_sync if among_workers else replicas
    first = index * replicas if among_workers else 0

    def shares(*batch: Any) -> tf.data.Dataset:
        rows = tf.shape(batch[1])[0]

        def share(part: tf.Tensor) -> tuple:
            chosen = slice(part * rows // parts, (part + 1) * rows // parts)
            return tf.nest.map_structure(lambda ids: ids[chosen], batch)

        own = tf.data.Dataset.range(
            first, first + replicas, output_type=tf.int32
        )
        return own.map(share)

    divided = batches.flat_map(shares).prefetch(_PREFETCHED * replicas)
    return strategy.distribute_datasets_from_function(lambda context: divided)


def broadcast_from_chief(
    strategy: tf.distribute.Strategy, value: Any
) -> np.ndarray:
    """Returns the chief's numbers, of at most six dimensions, on every worker.

    All workers must call it; the value of the others is ignored.
    """
    index, workers = worker(strategy)
    value = np.asarray(value)
    if workers == 1:
        return value
    # The shape, then the number of dimensions and the dtype.
    header = np.zeros(8, np.int64)
    if index == 0:
        header[: value.ndim] = value.shape
        header[-2:] = value.ndim, ord(value.dtype.char)
    *shape, dimensions, kind = _sum_workers(strategy, header).astype(np.int64)
    shape = shape[:dimensions]
    value = value if index == 0 else np.zeros(shape)
    if value.size:
        value = _sum_workers(strategy, value)
    return value.reshape(shape).astype(chr(kind))


def gather_from_workers(
    strategy: tf.distribute.Strategy, value: Any
) -> np.ndarray:
    """Returns the numbers of all workers, `[workers, ...]`.

    All workers must call it, with values of one shape.
    """
    index, workers = worker(strategy)
    value = np.asarray(value)
    if workers == 1:
        return value[None]
    values = np.zeros((workers, *value.shape))
    values[index] = value
    return _sum_workers(strategy, values).astype(value.dtype)


def _sum_workers(
    strategy: tf.distribute.Strategy, value: np.ndarray
) -> np.ndarray:
    """Returns the sum of every worker's value, in float64."""
    total = _sum_function(strategy)(value.astype(np.float64).ravel())
    local = strategy.experimental_local_results(total)[0]
    return local.numpy().reshape(value.shape)


@functools.cache  # or it would be traced for each of many variables
def _sum_function(strategy: tf.distribute.Strategy) -> Callable:
    replicas = strategy.num_replicas_in_sync // worker(strategy)[1]

    def add(value: tf.Tensor) -> tf.Tensor:
        context = tf.distribute.get_replica_context()
        # All replicas of a worker have its value: only one of them counts.
        if context.replica_id_in_sync_group % replicas != 0:
            value = tf.zeros_like(value)
        return context.all_reduce(tf.distribute.ReduceOp.SUM, value)

    return tf.function(
        lambda value: strategy.run(add, args=(value,)),
        [tf.TensorSpec([None], tf.float64)],
    )
