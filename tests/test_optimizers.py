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


@pytest.mark.parametrize(
    ("dtype", "rtol"),
    (("float32", 1e-5), ("float16", 6e-3), ("bfloat16", 5e-2)),
)
@pytest.mark.parametrize("has_half_gradients", (False, True))
def test_adam_in_half_precision(dtype, rtol, has_half_gradients):
    """In half precision ε and 1 - beta_2 would be 0, and tiny gradients too."""
    variable = keras.Variable(np.ones(4), dtype=dtype)
    adam = type(kt.optimizers.adam(d_model=4))
    optimizer = adam(0.25, beta_1=0.9, beta_2=0.999, epsilon=1e-9)
    optimizer.build([variable])
    expected, first, second = np.ones(4), np.zeros(4), np.zeros(4)
    given = dtype if has_half_gradients else "float32"
    for step, scale in enumerate((1.0, 2.0, 0.5), start=1):
        gradient = ops.cast(scale * np.array([1e-5, 0.0, -0.5, 100.0]), given)
        optimizer.apply([gradient], [variable])
        gradient = to_numpy(gradient)
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        rate = 0.25 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        expected = expected - rate * first / (np.sqrt(second) + 1e-9)
    np.testing.assert_allclose(to_numpy(variable), expected, rtol, rtol)
    assert abs(expected - 1.0)[[0, 2, 3]].min() > 0.5


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
