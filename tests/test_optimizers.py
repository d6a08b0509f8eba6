import keras
import numpy as np
import pytest
from helpers import check_examples, to_numpy
from keras import ops

import keras_transformer as kt
from keras_transformer import optimizers


def test_examples_of_the_docstrings():
    check_examples(optimizers)


def test_adam_is_the_papers():
    adam = kt.optimizers.adam(64, warmup_steps=100, scale=2.0)
    assert isinstance(adam, keras.optimizers.Adam)
    config = adam.get_config()
    assert (config["beta_1"], config["beta_2"]) == (0.9, 0.98)
    assert config["epsilon"] == 1e-9
    for name in ("weight_decay", "clipnorm", "clipvalue", "global_clipnorm"):
        assert config[name] is None
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(adam))
    assert copy.get_config() == config


def test_other_arguments_are_passed_to_keras():
    adam = kt.optimizers.adam(64, global_clipnorm=0.5, name="mine")
    assert (adam.global_clipnorm, adam.name) == (0.5, "mine")


def test_first_updates_have_the_first_rates():
    """Adam's first updates are the rate itself, for a constant gradient."""
    variable = keras.Variable(np.zeros(1, "float32"))
    optimizer = kt.optimizers.adam(d_model=64, warmup_steps=10, scale=2.0)
    value = 0.0
    for step in (1, 2, 3):
        optimizer.apply([ops.ones(1)], [variable])
        new = float(to_numpy(variable)[0])
        # Equation 3 in the warmup, times the scale.
        rate = 2.0 * 64**-0.5 * step * 10**-1.5
        assert value - new == pytest.approx(rate, rel=1e-4)
        value = new
