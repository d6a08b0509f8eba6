"""What a training has cost, in floating-point operations (Table 2)."""

import time
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.flops import training_flops
from keras_transformer.inference.run import Run
from keras_transformer.train.log import read_log

# Large enough to be computed at the full rate, and done in some milliseconds.
_SIZES = {"CPU": 1024, "GPU": 8192}
_ROUNDS = 5


def sustained_flops(dtype: str) -> float:
    """Measures the rate of large matrix products on one device.

    Args:
        dtype: Keras dtype policy of the training.

    Returns:
        Operations per second, the best of a few rounds.
    """
    device = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    size = _SIZES[device]
    dtype = dtype.removeprefix("mixed_")
    with tf.device(f"/{device}:0"):
        x = tf.ones([size, size], dtype)
        seconds = []
        for _ in range(_ROUNDS):
            start = time.perf_counter()
            # Reading a value waits for the product.
            float(tf.matmul(x, x)[0, 0])
            seconds.append(time.perf_counter() - start)
    return 2 * size**3 / min(seconds)


def training_cost(run: Run, step: int) -> dict[str, Any]:
    """Estimates the operations of training up to a step, in two ways.

    As in the paper's Table 2: the time of all devices together, times the
    rate that a device sustains. The paper takes a figure of each model of GPU;
    here the rate is that of matrix products, measured when training began.

    By counting: operations of the forward pass and of the gradients for pairs
    of the mean lengths of the training data (`keras_transformer.flops`), times
    the pairs that were trained on, without padding.

    Args:
        run: The run. That of averaged checkpoints has the cost of the run
            that they are from; weights from another run count nothing.
        step: Updates.

    Returns:
        `device_seconds`, `sustained_flops` per second, `flops_by_time` and
        `flops_by_count`; nothing if the log of the run is missing.
    """
    known = run.statistics
    if "cost" in known:
        return known["cost"]
    rows = [row for row in read_log(run.log_path) if row["step"] <= step]
    rows = [row for row in rows if "device_seconds_per_step" in row]
    if not rows or "sustained_flops" not in known:
        return {}
    # The first row after an interruption has means of the rest of its epoch.
    steps = np.diff([0, *(row["step"] for row in rows)])
    seconds = steps @ [row["device_seconds_per_step"] for row in rows]
    tokens = steps @ [row["tokens_per_step"] for row in rows]
    source = known["source_tokens"] / known["pairs"]
    target = known["target_tokens"] / known["pairs"]
    per_pair = training_flops(run.config, source, target)
    return {
        "device_seconds": round(float(seconds), 1),
        "sustained_flops": known["sustained_flops"],
        "flops_by_time": float(seconds * known["sustained_flops"]),
        "flops_by_count": float(tokens / target * per_pair),
    }
