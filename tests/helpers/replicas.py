"""Trains a tiny Transformer under a strategy."""

import keras
import numpy as np
import tensorflow as tf

STEPS = 10
ROWS = (5, 3, 1, 8, 2)  # odd, and fewer than the replicas
CONFIG = dict(vocab_size=40, num_layers=1, d_model=16, d_ff=32, num_heads=2)


def global_batches():
    """Batches whose rows have different lengths, with positive weights."""
    random = np.random.default_rng(0)
    for step in range(STEPS):
        shape = (ROWS[step % len(ROWS)], 6 + step % 3)
        source, labels = random.integers(4, 40, (2, *shape), "int32")
        for ids in (source, labels):
            for row in ids:
                row[random.integers(1, 7) :] = 0
        target = np.where(labels > 0, np.roll(labels, 1, axis=1), 0)
        target[:, 0] = 2
        weights = random.uniform(0.5, 2.0, shape[0]).astype("float32")
        yield {"source": source, "target": target}, labels, weights


def dataset(worker=0, workers=1):
    """A worker's rows of `global_batches`, as a dataset."""
    from keras_transformer.train.data.reading import without_tuning

    def batches():
        for inputs, labels, _ in global_batches():
            rows = slice(worker, None, workers)
            yield (
                {name: ids[rows] for name, ids in inputs.items()},
                labels[rows],
            )

    ids = tf.TensorSpec((None, None), tf.int32)
    signature = ({"source": ids, "target": ids}, ids)
    return without_tuning(
        tf.data.Dataset.from_generator(batches, output_signature=signature)
    )


def compiled_model(strategy, *, dtype="float32", dropout=0.0, **options):
    """A model with the same initial weights for every strategy."""
    import keras_transformer as kt

    keras.utils.set_random_seed(1)
    clip_norm = options.pop("clip_norm", None)
    make_optimizer = options.pop("optimizer", None)
    with strategy.scope():
        model = kt.Transformer(
            kt.TransformerConfig(**CONFIG, dropout=dropout), dtype=dtype
        )
        model.compile(
            make_optimizer()
            if make_optimizer
            else kt.optimizers.adam(16, 16, global_clipnorm=clip_norm),
            options.pop("loss", None) or kt.LabelSmoothedCrossEntropy(0.1),
            metrics=[kt.TokenNLL(), kt.TokenAccuracy()],
            **options,
        )
    return model


def eager_model(model_class=None, dtype="float32", **options):
    """A compiled model that is not traced, with the same weights each time."""
    import keras_transformer as kt

    keras.utils.set_random_seed(1)
    config = kt.TransformerConfig(**CONFIG, dropout=0.0)
    model = (model_class or kt.Transformer)(config, dtype=dtype)
    for weight in model.weights:
        random = np.random.default_rng(0)
        weight.assign(weight + 0.1 * random.normal(size=weight.shape))
    options = {"optimizer": keras.optimizers.SGD(0.0), **options}
    loss = kt.LabelSmoothedCrossEntropy(0.1)
    model.compile(loss=loss, run_eagerly=True, **options)
    return model


def train_steps(model, count=1):
    """Returns the losses of steps with the first batch."""
    batch = next(global_batches())
    return [
        model.train_on_batch(*batch, return_dict=True)["loss"]
        for _ in range(count)
    ]


def assert_copies_are_equal(strategy, variables):
    for variable in variables:
        first, *others = strategy.experimental_local_results(variable.value)
        for copy in others:
            np.testing.assert_array_equal(copy, first, variable.path)


def main(output):
    """Trains as one of the workers of TF_CONFIG; the first writes a history."""
    from keras_transformer.train.strategy import TensorFlowDevices

    devices = TensorFlowDevices("multiworker")
    strategy = devices.strategy
    index, workers = devices.worker
    value = np.array([[2**33, 1]])
    received = devices.broadcast(value - index)
    np.testing.assert_array_equal(received, value)
    batches = dataset(index, workers).repeat()
    model = compiled_model(strategy)
    history = model.fit(
        devices.distribute(batches),
        validation_data=devices.distribute(dataset(), among_workers=True),
        steps_per_epoch=STEPS,
        shuffle=False,
        verbose=0,
    ).history
    variables = [*model.weights, *model.optimizer.variables]
    assert_copies_are_equal(strategy, variables)
    if index == 0:
        np.savez(output, **history)
