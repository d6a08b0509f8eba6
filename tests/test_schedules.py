import keras
import numpy as np
import pytest
from helpers import check_examples, to_numpy
from keras import ops

import keras_transformer as kt
from keras_transformer import optimizers, schedules

WARMUPS = (1, 400, 4000)


def paper(step, d_model, warmup_steps):
    """Equation 3; steps count from 1."""
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


@pytest.mark.parametrize("module", (schedules, optimizers))
def test_examples_of_the_docstrings(module):
    check_examples(module)


@pytest.mark.parametrize("warmup", WARMUPS)
@pytest.mark.parametrize("d_model", (128, 512))
def test_rate_is_the_papers(d_model, warmup):
    schedule = kt.WarmupInverseSquareRoot(d_model, warmup)
    for step in (1, 2, 7, warmup, warmup + 1, 10 * warmup, 100_000):
        # Keras counts from 0.
        found, expected = schedule(step - 1), paper(step, d_model, warmup)
        assert float(found) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("warmup", WARMUPS)
def test_rate_is_highest_at_the_end_of_the_warmup(warmup):
    schedule = kt.WarmupInverseSquareRoot(512, warmup)
    rates = np.array([float(schedule(warmup - 1 + i)) for i in (-1, 0, 1)])
    if warmup > 1:
        assert rates[0] < rates[1]
    assert rates[1] > rates[2]
    assert rates[1] == pytest.approx((512 * warmup) ** -0.5)


def test_first_updates_have_the_first_rates():
    """The optimiser itself counts so: Adam's first updates are the rate."""
    variable = keras.Variable(np.zeros(1, "float32"))
    optimizer = kt.optimizers.adam(d_model=64, warmup_steps=10)
    value = 0.0
    for step in (1, 2, 3):
        optimizer.apply([ops.ones(1)], [variable])
        new = float(to_numpy(variable)[0])
        assert value - new == pytest.approx(paper(step, 64, 10), rel=1e-4)
        value = new


def test_optimizer_is_the_papers():
    optimizer = kt.optimizers.adam(d_model=64, warmup_steps=10)
    config = optimizer.get_config()
    assert isinstance(optimizer, keras.optimizers.Adam)
    assert (config["beta_1"], config["beta_2"]) == (0.9, 0.98)
    assert config["epsilon"] == 1e-9
    assert not config["weight_decay"] and not config["amsgrad"]
    assert [
        config[k] for k in ("clipnorm", "clipvalue", "global_clipnorm")
    ] == [None] * 3
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert copy.get_config() == config


def test_saving_round_trip():
    schedule = kt.WarmupInverseSquareRoot(512, warmup_steps=123, scale=2.0)
    serialize = keras.optimizers.schedules.serialize
    copy = keras.optimizers.schedules.deserialize(serialize(schedule))
    assert copy.get_config() == {
        "d_model": 512,
        "warmup_steps": 123,
        "scale": 2.0,
    }
    assert float(copy(500)) == float(schedule(500))


def test_scale_is_a_factor():
    for step in (0, 7, 500):
        assert float(kt.WarmupInverseSquareRoot(64, 9, 2.5)(step)) == (
            pytest.approx(2.5 * paper(step + 1, 64, 9), rel=1e-5)
        )


@pytest.mark.parametrize("scale", (0.0, -1.0, float("inf"), float("nan")))
def test_wrong_scale_is_refused(scale):
    with pytest.raises(ValueError, match=f"scale={scale}"):
        kt.WarmupInverseSquareRoot(64, 9, scale)


@pytest.mark.parametrize("arguments", ((0, 10), (512, 0), (512, -1)))
def test_wrong_arguments_are_refused(arguments):
    with pytest.raises(ValueError, match="d_model"):
        kt.WarmupInverseSquareRoot(*arguments)
