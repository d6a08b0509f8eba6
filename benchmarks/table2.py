"""Estimates the cost of training in floating-point operations (Table 2).

python benchmarks/table2.py [--devices N] [RUN ...]

By time, as in the paper: the time of the training, times the number of
devices, times the rate that a device sustains; for a run, that of large matrix
products, measured here. By counting: the operations of the model for the pairs
that it was trained on. The quotient is the share of the rate that training
reached. Run it on the machine of the training; N is the number of its devices.

A multiplication and the addition that follows it are two operations. Matrix
products are counted; embedding, normalization, softmax and other element-wise
operations, a few per cent, are not. Lengths include the end token, and may be
means.
"""

import argparse
import time

import numpy as np
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.config import StackConfig, TransformerConfig
from keras_transformer.runs.weight_files import step_of
from keras_transformer.train.callbacks import read_log

# Large enough to be computed at the full rate, and done in some milliseconds.
_SIZES = {"CPU": 1024, "GPU": 8192}
_ROUNDS = 5
_LENGTH = 28  # tokens of a sentence, the mean of WMT 14
_PAPER = {"base": 3.3e18, "big": 2.3e19}  # by time


def forward_flops(
    config: TransformerConfig, source_length: float, target_length: float
) -> float:
    """Returns the operations of the forward pass for one pair."""
    s, t = source_length, target_length
    window = config.attention_window or float("inf")

    def layer(sizes: StackConfig, length: float, memory: float) -> float:
        widths = sizes.num_heads * (sizes.d_k + sizes.d_v)
        # Queries and output projection, or keys and values, per position.
        half = 2 * config.d_model * widths
        feed_forward = 2 * 2 * config.d_model * sizes.d_ff
        # Each pair of a query and a key: its score, and its part of the output.
        pairs = length * (min(length, window) + memory)
        projections = half * 2 * length
        if memory:
            projections += half * (length + memory)
        return projections + length * feed_forward + 2 * widths * pairs

    encoder = config.encoder.num_layers * layer(config.encoder, s, 0)
    decoder = config.decoder.num_layers * layer(config.decoder, t, s)
    return encoder + decoder + 2 * t * config.d_model * config.vocab_size


def training_flops(
    config: TransformerConfig, source_length: float, target_length: float
) -> float:
    """Returns the operations of an update, per pair of the batch."""
    # A product y = x W takes as much again for each of its two gradients.
    return 3 * forward_flops(config, source_length, target_length)


def sustained_flops(dtype: str) -> float:
    """Returns the rate of large matrix products, the best of a few rounds."""
    device = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    size = _SIZES[device]
    with tf.device(f"/{device}:0"):
        x = tf.ones([size, size], dtype.removeprefix("mixed_"))
        seconds = []
        for _ in range(_ROUNDS):
            start = time.perf_counter()
            float(tf.matmul(x, x)[0, 0])  # waits for the product
            seconds.append(time.perf_counter() - start)
    return 2 * size**3 / min(seconds)


def paper_row(name: str) -> tuple[str, int, float, float]:
    """Returns steps and operations of a model of the paper."""
    recipe = kt.train.Recipe.from_preset(name)
    config = kt.TransformerConfig.from_preset(name)
    per_pair = training_flops(config, _LENGTH, _LENGTH)
    pairs = recipe.steps * recipe.batch_tokens / (2 * _LENGTH)
    return name, recipe.steps, _PAPER[name], pairs * per_pair


def run_row(path: str, devices: int) -> tuple[str, int, float, float]:
    """Returns steps and operations of a run, without its validation."""
    run = kt.Run.open(path)
    step = step_of(run.find_checkpoint())
    known = run.statistics
    tokens = known["source_tokens"] + known["target_tokens"]
    targets = run.request["batch_tokens"] * known["target_tokens"] / tokens
    rows = [
        r for r in read_log(run.path / "log.csv") if "tokens_per_second" in r
    ]
    if not rows:
        raise SystemExit(f"{run.path}/log.csv has no tokens_per_second.")
    # The first row after an interruption is of the rest of its epoch.
    steps = np.diff([0, *(row["step"] for row in rows)])
    seconds = sum(steps * targets / [row["tokens_per_second"] for row in rows])
    by_time = devices * seconds * sustained_flops(run.request["dtype"])
    # Full batches of pairs of the mean lengths of the training data.
    source, target = (
        known[f"{side}_tokens"] / known["pairs"]
        for side in ("source", "target")
    )
    pairs = step * run.request["batch_tokens"] / (source + target)
    return (
        path,
        step,
        by_time,
        pairs * training_flops(run.config, source, target),
    )


def main() -> None:
    """Prints a row per model of the paper, and per run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="*", metavar="RUN")
    parser.add_argument("--devices", type=int, default=1, help="of the runs")
    options = parser.parse_args()
    rows = [paper_row(name) for name in _PAPER]
    rows += [run_row(path, options.devices) for path in options.runs]
    print("| | steps | by time | by counting | share |\n|---|---|---|---|---|")
    for name, steps, by_time, counted in rows:
        print(
            f"| {name} | {steps:,} | {by_time:.1e} | {counted:.2e} "
            f"| {counted / by_time:.0%} |"
        )


if __name__ == "__main__":
    main()
