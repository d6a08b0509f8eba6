"""Settings of the search."""

import dataclasses
import math

import pytest

from keras_transformer.errors import InputError
from keras_transformer.search import BeamSearch


@pytest.mark.parametrize(
    "argument, values",
    [
        ("beam_size", [0, -1, 2.0, True]),
        ("alpha", [-0.1, math.nan, math.inf, True, "0.6"]),
        ("extra_length", [-1, 1.5, False]),
        ("length_factor", [-0.5, math.inf, "2"]),
    ],
)
def test_invalid_arguments(argument, values):
    for value in values:
        message = f"Received: {argument}={value!r}"
        with pytest.raises(InputError, match=message):
            BeamSearch(**{argument: value})


def test_defaults_are_those_of_the_paper():
    expected = dict(beam_size=4, alpha=0.6, extra_length=50, length_factor=1.0)
    assert dataclasses.asdict(BeamSearch()) == expected
