"""Measures how long a training step takes, on random ids.

python benchmarks/training_step.py --preset small --sentences 64 --length 32
"""

import argparse
import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import keras_transformer as kt

_WARM_UP = 5


class _Clock(keras.callbacks.Callback):
    """Notes when each step ends."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[float] = []

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self.ends.append(time.perf_counter())


def main() -> None:
    """Runs the benchmark and prints a line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="small")
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()

    config = kt.TransformerConfig.from_preset(options.preset)
    model = kt.Transformer(config, dtype=options.dtype)
    model.compile(
        kt.optimizers.adam(config.d_model, warmup_steps=1_000),
        loss=kt.LabelSmoothedCrossEntropy(),
        jit_compile=False,
    )
    shape = (options.sentences, options.length)
    random = np.random.default_rng(0)
    # Ids 0 to 3 are padding, unknown, start and end.
    source, target = random.integers(4, config.vocab_size, (2, *shape), "int32")
    batch = ({"source": source, "target": target}, target)
    clock = _Clock()
    model.fit(
        tf.data.Dataset.from_tensors(batch).repeat(),
        steps_per_epoch=_WARM_UP + options.steps,
        shuffle=False,
        verbose=0,
        callbacks=[clock],
    )
    seconds = statistics.median(np.diff(clock.ends)[_WARM_UP - 1 :])
    print(
        f"{options.preset} {options.dtype} {shape[0]}x{shape[1]}: "
        f"{1_000 * seconds:.0f} ms a step, "
        f"{source.size / seconds:,.0f} target tokens/s"
    )


if __name__ == "__main__":
    main()
