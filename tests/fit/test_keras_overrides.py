"""Fails when Keras changes something private that is overridden or read."""

import keras
import numpy as np
import tensorflow as tf
from replicas import compiled_model

from keras_transformer.fit.keras_overrides import (
    BuiltWithoutData,
    adam_moments,
    without_all_reduce,
)
from keras_transformer.train.strategy import open_strategy


def test_keras_takes_a_batch_to_build_and_we_do_not():
    """Otherwise the override can go."""
    strategy = open_strategy("mirrored")

    def batches_taken(override):
        taken = []

        def batches():
            for number in range(2):
                taken.append(number)
                yield np.ones((2, 1), "float32"), np.ones((2, 1), "float32")

        base = BuiltWithoutData if override else keras.Model

        class Model(base):
            def __init__(self):
                super().__init__()
                self.dense = keras.layers.Dense(1)
                self.dense.build((None, 1))
                self.built = True

            def call(self, x):
                return self.dense(x)

        with strategy.scope():
            model = Model()
            model.compile("sgd", "mse")
            model.optimizer.build(model.trainable_variables)
        spec = tf.TensorSpec((None, 1), tf.float32)
        data = tf.data.Dataset.from_generator(
            batches, output_signature=(spec, spec)
        )
        model.fit(data, verbose=0)
        return len(taken)

    assert batches_taken(override=True) == 2
    assert batches_taken(override=False) > 2


def test_keras_sums_gradients_over_replicas_but_those_that_are_summed():
    strategy = open_strategy("mirrored")
    with strategy.scope():
        variable = keras.Variable([1.0])
        optimizer = keras.optimizers.SGD(1.0)
        optimizer.build([variable])

    def apply():
        optimizer.apply([tf.constant([0.25])], [variable])

    def apply_summed():
        with without_all_reduce(optimizer):
            apply()

    values = [1.0]
    for update in (apply, apply_summed, apply):
        tf.function(lambda update=update: strategy.run(update))()
        values.append(float(variable.numpy()[0]))
    assert values == [1.0, 0.5, 0.25, -0.25]


def test_the_optimizer_inside_a_loss_scale_is_meant():
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD())
    inner, pairs = optimizer.inner_optimizer, [(1, 2)]
    with without_all_reduce(optimizer):
        assert inner._all_reduce_sum_gradients(pairs) == pairs
    assert "_all_reduce_sum_gradients" not in vars(inner)


def test_metrics_are_built_for_labels_and_logits():
    model = compiled_model(
        open_strategy("mirrored"), weighted_metrics=["accuracy"]
    )
    model._maybe_symbolic_build()
    names = {type(m).__name__ for m in model._compile_metrics.metrics}
    assert "SparseCategoricalAccuracy" in names


def test_the_moments_of_a_variable():
    variables = [keras.Variable([1.0]), keras.Variable([2.0])]
    adam = keras.optimizers.Adam(beta_1=0.5, beta_2=0.75)
    adam.apply([tf.constant([2.0]), tf.constant([4.0])], variables)
    found = [adam_moments(adam, v.value) for v in variables]
    assert [[float(x[0]) for x in pair] for pair in found] == [[1, 1], [2, 4]]
