"""Checks that gradient accumulation and two replicas train like one replica.

python benchmarks/equal_steps.py

Trains the architecture `base` without dropout, of which replicas and parts
would draw other masks, on the same random batches from the same weights: as
one replica, with gradient accumulation 2, and with two replicas on logical
CPUs. Prints the largest differences of losses (means of ten steps) and
weights. One replica with the rows of each batch in the opposite order shows
how large differences are that only rounding makes: in the first steps Adam
moves every weight by the learning rate, even where the gradient is near zero.
Each training runs in a process of its own.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

# Accumulated parts of a batch, replicas, and the order of rows: 1 or -1.
MODES = {
    "one": (1, 1, 1),
    "opposite order": (1, 1, -1),
    "accumulation": (2, 1, 1),
    "replicas": (1, 2, 1),
}
VOCABULARY = 8_000
EPOCH = 10  # steps


def train(mode: str, options: argparse.Namespace) -> None:
    """Trains, and writes losses and weights to `options.folder`."""
    import keras
    import tensorflow as tf

    import keras_transformer as kt
    from keras_transformer import optimizers
    from keras_transformer.losses import LabelSmoothedCrossEntropy

    parts, replicas, order = MODES[mode]
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * replicas,
    )
    keras.utils.set_random_seed(1)
    config = kt.TransformerConfig.from_preset(
        "base", vocab_size=VOCABULARY, dropout=0.0, max_length=64
    )
    strategy = kt.train.open_strategy("mirrored" if replicas > 1 else "single")
    with strategy.scope():
        model = kt.Transformer(config)
        model.compile(
            optimizers.adam(config.d_model, options.warmup),
            LabelSmoothedCrossEntropy(0.1, pad_id=config.pad_id),
            gradient_accumulation_steps=parts,
        )
    shape = (options.steps, options.rows, options.length)
    source = np.random.default_rng(1).integers(4, VOCABULARY, shape, "int32")
    labels = (source + 1) % VOCABULARY  # something to learn
    labels[:, 0, options.length // 2 :] = config.pad_id
    target = np.roll(labels, 1, axis=-1)
    target[..., 0] = config.bos_id
    source, target, labels = (x[:, ::order] for x in (source, target, labels))
    inputs = {"source": source, "target": target}
    model(tf.nest.map_structure(lambda ids: ids[0], inputs))
    before = np.concatenate([w.ravel() for w in model.get_weights()])
    history = model.fit(
        tf.data.Dataset.from_tensor_slices((inputs, labels)),
        steps_per_epoch=EPOCH,
        epochs=options.steps // EPOCH,
        shuffle=False,
        verbose=0,
    ).history["loss"]
    after = np.concatenate([w.ravel() for w in model.get_weights()])
    np.savez(
        Path(options.folder, mode), before=before, after=after, loss=history
    )


def main() -> None:
    """Trains in each mode, and prints the differences."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--length", type=int, default=16)
    parser.add_argument("--warmup", type=int, default=4000)
    parser.add_argument("--mode", choices=MODES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.mode:
        train(options.mode, options)
        return
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for mode in MODES:
            subprocess.run(
                [sys.executable, *sys.argv, "--mode", mode, "--folder", folder],
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
                check=True,
            )
            found[mode] = dict(np.load(Path(folder, f"{mode}.npz")))
    one = found.pop("one")
    moved = np.abs(one["after"] - one["before"]).max()
    print(
        f"one: loss {one['loss'][0]:.4f} to {one['loss'][-1]:.4f}; "
        f"weights moved by up to {moved:.2g}"
    )
    for mode, other in found.items():
        np.testing.assert_array_equal(other["before"], one["before"])
        loss = np.abs(other["loss"] - one["loss"]).max()
        weights = np.abs(other["after"] - one["after"])
        print(
            f"{mode}: losses differ by up to {loss:.2g}, weights by up to "
            f"{weights.max():.2g} (mean {weights.mean():.2g})"
        )


if __name__ == "__main__":
    main()
