import keras
import pytest
from helpers import check_examples

import keras_transformer as kt
from keras_transformer import schedules

WARMUPS = (1, 400, 4000)


def paper(step, d_model, warmup_steps):
    """Equation 3; steps count from 1."""
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


@pytest.mark.parametrize("warmup", WARMUPS)
@pytest.mark.parametrize("d_model", (128, 512))
def test_rate_is_the_papers(d_model, warmup):
    schedule = kt.WarmupInverseSquareRoot(d_model, warmup)
    for step in (1, 2, 7, warmup, warmup + 1, 10 * warmup, 100_000):
        # Keras counts from 0.
        found, expected = schedule(step - 1), paper(step, d_model, warmup)
        assert float(found) == pytest.approx(expected, rel=1e-5)


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
    rate = float(kt.WarmupInverseSquareRoot(64, 9, 2.5)(7))
    assert rate == pytest.approx(2.5 * paper(8, 64, 9), rel=1e-5)


@pytest.mark.parametrize(
    "arguments",
    (
        dict(d_model=0),
        dict(warmup_steps=0),
        dict(scale=0.0),
        dict(scale=float("inf")),
        dict(scale=float("nan")),
    ),
    ids=repr,
)
def test_wrong_arguments_are_named(arguments):
    ((name, value),) = arguments.items()
    with pytest.raises(ValueError, match=f"{name} must .*{value}"):
        kt.WarmupInverseSquareRoot(**{"d_model": 64} | arguments)


def test_examples_of_the_docstrings():
    check_examples(schedules)
