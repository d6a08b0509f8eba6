"""What of Keras is not documented, and must stay as it is."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.distributed_fit import Training
from keras_transformer.keras_overrides import FusedAdam
from keras_transformer.train.strategy import distribute


def batches(rows=4, count=6):
    random = np.random.default_rng(0)
    for _ in range(count):
        source, target, labels = random.integers(4, 30, (3, rows, 5), "int32")
        labels[:, 3:] = 0
        yield {"source": source, "target": target}, labels


@pytest.fixture
def make_model():
    def make():
        keras.utils.set_random_seed(7)
        return kt.Transformer(
            kt.TransformerConfig(
                vocab_size=30,
                num_layers=1,
                d_model=8,
                d_ff=16,
                num_heads=2,
                dropout=0,
            )
        )

    return make


def dataset():
    ids = tf.TensorSpec((None, None), tf.int32)
    return tf.data.Dataset.from_generator(
        batches, output_signature=({"source": ids, "target": ids}, ids)
    )


def test_training_is_what_keras_own_step_does(make_model):
    """On one replica Keras is exact, so it is the reference."""
    reference = make_model()
    reference.compile(
        kt.optimizers.adam(8, warmup_steps=3, scale=2.0),
        kt.LabelSmoothedCrossEntropy(0.1),
    )
    reference.fit(dataset(), shuffle=False, verbose=0)
    model = make_model()
    training = Training(model, 0.1, warmup_steps=3, learning_rate_scale=2.0)
    training.fit(
        distribute(dataset(), tf.distribute.get_strategy()),
        shuffle=False,
        verbose=0,
    )
    for found, expected in zip(
        model.trainable_variables, reference.trainable_variables, strict=True
    ):
        np.testing.assert_allclose(
            found, expected, atol=1e-4, err_msg=expected.path
        )
    assert int(training.optimizer.iterations) == 6


def test_adam_is_keras_adam():
    settings = dict(beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    variables = [keras.Variable(np.ones((3, 2), "float32")) for _ in range(2)]
    optimizers = [
        kind(0.1, **settings) for kind in (FusedAdam, keras.optimizers.Adam)
    ]
    random = np.random.default_rng(0)
    for _ in range(5):
        gradient = tf.constant(random.normal(size=(3, 2)), tf.float32)
        for optimizer, variable in zip(optimizers, variables, strict=True):
            optimizer.apply([gradient], [variable])
    np.testing.assert_allclose(variables[0], variables[1], rtol=1e-5)
    assert [v.shape for v in optimizers[0].variables] == [
        v.shape for v in optimizers[1].variables
    ]


def test_keras_still_has_what_is_replaced():
    """If Keras renames one of these, our replacement does nothing."""
    assert callable(keras.Model._maybe_symbolic_build)
    assert callable(keras.optimizers.Adam._all_reduce_sum_gradients)
    assert callable(keras.optimizers.Adam.update_step)


def test_fit_takes_no_batch_before_the_first_step(make_model):
    """Under a strategy; without one Keras does not either."""
    taken = []

    def counted():
        for number, batch in enumerate(batches(count=2)):
            taken.append(number)
            yield batch

    ids = tf.TensorSpec((None, None), tf.int32)
    data = tf.data.Dataset.from_generator(
        counted, output_signature=({"source": ids, "target": ids}, ids)
    )
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        training = Training(make_model())
    training.fit(distribute(data, strategy), verbose=0)
    assert taken == [0, 1]
    assert training.optimizer.iterations.numpy() == 2
