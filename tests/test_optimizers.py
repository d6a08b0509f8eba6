import keras
from helpers import check_examples

import keras_transformer as kt
from keras_transformer import optimizers


def test_examples_of_the_docstrings():
    check_examples(optimizers)


def test_adam_is_the_papers():
    adam = kt.optimizers.adam(64, warmup_steps=100, scale=2.0)
    assert isinstance(adam, keras.optimizers.Adam)
    assert (adam.beta_1, adam.beta_2, adam.epsilon) == (0.9, 0.98, 1e-9)
    assert adam.global_clipnorm is None
    # Equation 3 at step 1, times the scale.
    expected = 2.0 * 64**-0.5 * 100**-1.5
    assert abs(float(adam.learning_rate) - expected) < 1e-9


def test_other_arguments_are_those_of_keras():
    adam = kt.optimizers.adam(64, global_clipnorm=0.5, name="mine")
    assert (adam.global_clipnorm, adam.name) == (0.5, "mine")
