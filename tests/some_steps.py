"""Trains for twenty steps on given devices; a program for test_step.py.

python some_steps.py OUTPUT.npz '{"strategy": "mirrored", "devices": 2}'
"""

import json
import sys

import keras
import numpy as np
import tensorflow as tf

STEPS = 20
ROWS = (5, 3, 1, 8, 2)  # odd, and fewer than the devices


def global_batches():
    """Rows of different lengths, so that shares have different tokens."""
    random = np.random.default_rng(0)
    for step in range(STEPS):
        shape = (ROWS[step % len(ROWS)], 6)
        source, labels = random.integers(4, 40, (2, *shape), "int32")
        for ids in (source, labels):
            for row in ids:
                row[random.integers(1, 7) :] = 0
        target = np.where(labels > 0, np.roll(labels, 1, axis=1), 0)
        target[:, 0] = 2
        yield {"source": source, "target": target}, labels


def main(output, options):
    devices = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(
        devices[0],
        [tf.config.LogicalDeviceConfiguration()] * options.get("devices", 1),
    )
    from keras_transformer import Transformer, TransformerConfig
    from keras_transformer.distributed_fit import Training
    from keras_transformer.train.strategy import (
        broadcast_from_chief,
        describe,
        distribute,
        open_strategy,
        worker,
    )

    strategy = open_strategy(options.get("strategy", "single"))
    index, workers = worker(strategy)
    print(describe(strategy))
    # Of several shapes and kinds, one of them empty; others send nonsense.
    for value in (np.arange(6).reshape(2, 3), np.float32(0.5), np.zeros(0)):
        told = broadcast_from_chief(strategy, value if index == 0 else None)
        np.testing.assert_array_equal(told, value)
        assert told.dtype == value.dtype and told.shape == value.shape

    keras.utils.set_random_seed(options.get("seed", 1))
    config = TransformerConfig(
        vocab_size=40,
        num_layers=1,
        d_model=16,
        d_ff=32,
        num_heads=2,
        dropout=options.get("dropout", 0.0),
    )
    with strategy.scope():
        model = Transformer(config, dtype=options.get("dtype", "float32"))
        training = Training(
            model,
            warmup_steps=16,
            accumulate=options.get("accumulate", 1),
            clip_norm=options.get("clip_norm"),
        )
    if "loss_scale" in options:
        training.optimizer.dynamic_scale.assign(options["loss_scale"])
    steps, first = [], model.get_weights()

    def own_rows():
        for inputs, labels in global_batches():
            mine = slice(index, None, workers)
            yield {k: v[mine] for k, v in inputs.items()}, labels[mine]

    ids = tf.TensorSpec((None, None), tf.int32)
    signature = ({"source": ids, "target": ids}, ids)
    batches = tf.data.Dataset.zip(
        tf.data.Dataset.from_generator(own_rows, output_signature=signature),
        # Of each step and worker another position.
        tf.data.Dataset.range(STEPS).map(
            lambda step: tf.stack([step, 7 + index])
        ),
    )
    training.fit(
        distribute(batches.repeat(), strategy),
        steps_per_epoch=STEPS,
        shuffle=False,
        verbose=0,
        callbacks=[
            keras.callbacks.LambdaCallback(
                on_train_batch_end=lambda batch, logs: steps.append(logs)
            )
        ],
    )
    whole = tf.data.Dataset.from_generator(
        global_batches, output_signature=signature
    )
    # Weights, moments and the seeds of dropout: replicas never part.
    for variable in [*training.variables, *training.optimizer.variables]:
        copies = strategy.experimental_local_results(variable.value)
        for copy in copies:
            np.testing.assert_array_equal(copy, copies[0], variable.path)
    among_all = distribute(whole, strategy, among_workers=True)
    validation = training.validate(among_all)
    if index == 0:
        np.savez(
            output,
            validation=[validation[k] for k in ("val_loss", "val_nll")],
            **{
                name: [values[name] for values in steps]
                for name in ("loss", "nll", "tokens", "gradient_norm")
            },
            learning_rate=[values["learning_rate"] for values in steps],
            positions=[values["position"] for values in steps],
            loss_scale=training.optimizer.scale_loss(1.0),
            moved=[
                np.abs(now - then).max()
                for now, then in zip(model.get_weights(), first, strict=True)
            ],
            **{
                f"weight {i}": variable.numpy()
                for i, variable in enumerate(model.trainable_variables)
            },
        )


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
