import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf
from search_tables import PENALTIES, penalty

from keras_transformer.decoding.settings import BeamSearch, Sampling, converted
from keras_transformer.support.errors import InputError


@pytest.mark.parametrize(
    "kind, argument, values",
    [
        (BeamSearch, "beam_size", [0, -1, 2.0, True, 257]),
        (BeamSearch, "alpha", [-0.1, 5.1, math.nan, math.inf, True, "0.6"]),
        (BeamSearch, "extra_length", [-1, 1.5, False]),
        (BeamSearch, "length_factor", [-0.5, math.inf, "2"]),
        (BeamSearch, "length_penalty", ["marian", "", None, 1.0]),
        (BeamSearch, "no_repeat_ngram", [-1, 1.0, True, 257]),
        (Sampling, "temperature", [0, 1e-4, 101, -1.0, math.nan, math.inf]),
        (Sampling, "top_k", [-1, 2.0, None, 2**31]),
        (Sampling, "top_p", [0.0, 1.1, -0.5, math.nan, "1"]),
        (Sampling, "seed", [-1, 2**32, 1.0, None]),
        (Sampling, "num_samples", [0, -1, 1.0, 257]),
        (Sampling, "alpha", [-0.1, 5.1]),
        (Sampling, "length_penalty", ["marian"]),
    ],
)
def test_invalid_arguments(kind, argument, values):
    for value in values:
        with pytest.raises(InputError, match=f"^{argument} must .*{value}"):
            kind(**{argument: value})


def test_the_largest_values():
    limits = dict(extra_length=10**12, length_factor=1e30)
    assert BeamSearch(256, alpha=5.0, **limits).num_hypotheses == 256
    assert Sampling(100, 2**31 - 1, 1.0, 2**32 - 1, 256).num_hypotheses == 256


def test_defaults_of_sampling_change_no_probability():
    expected = dict(temperature=1.0, top_k=0, top_p=1.0)
    expected |= dict(seed=0, num_samples=None)
    expected |= dict(alpha=0.6, extra_length=50, length_factor=1.0)
    expected |= dict(length_penalty="wu", no_repeat_ngram=0)
    assert dataclasses.asdict(Sampling()) == expected


def test_as_many_hypotheses_as_translations():
    assert Sampling(seed=5).with_num_translations(3) == Sampling(
        seed=5, num_samples=3
    )
    assert Sampling().num_hypotheses == 1
    assert BeamSearch(3).with_num_translations(2).num_hypotheses == 3
    assert Sampling(num_samples=3).with_num_translations(2).num_hypotheses == 3
    for search in (BeamSearch(3), Sampling(num_samples=3)):
        for number in (0, 4):
            with pytest.raises(InputError, match=f": {number}"):
                search.with_num_translations(number)


def test_settings_of_the_other_kind_share_what_both_have():
    shared = dict(alpha=0.0, extra_length=3, length_factor=2.0)
    shared |= dict(length_penalty="power", no_repeat_ngram=3)
    beam_search, sampling = BeamSearch(2, **shared), Sampling(0.5, **shared)
    assert converted(beam_search, BeamSearch) is beam_search
    assert converted(beam_search, Sampling) == Sampling(**shared)
    assert converted(sampling, BeamSearch) == BeamSearch(**shared)


def test_defaults_are_those_of_the_paper():
    expected = dict(beam_size=4, alpha=0.6, extra_length=50, length_factor=1.0)
    expected |= dict(length_penalty="wu", stop="exact", no_repeat_ngram=0)
    assert dataclasses.asdict(BeamSearch()) == expected


@pytest.mark.parametrize("penalties", PENALTIES)
def test_length_penalty(penalties):
    settings, lengths = Sampling(**penalties), [1, 2, 3, 7, 50]
    expected = [penalty(length, **penalties) for length in lengths]
    array = settings.penalty(np.array(lengths, np.float32))
    tensor = settings.penalty(tf.constant(lengths, tf.float32))
    assert array.dtype == tensor.dtype == np.float32
    np.testing.assert_allclose(array, expected, rtol=1e-5)
    np.testing.assert_allclose(tensor, expected, rtol=1e-5)
    # Alpha may be an input of a graph, the form may not.
    served = dataclasses.replace(settings, alpha=1.0).penalty(tensor)
    in_graph = tf.function(
        lambda alpha: dataclasses.replace(settings, alpha=alpha).penalty(tensor)
    )
    np.testing.assert_allclose(in_graph(tf.constant(1.0)), served, rtol=1e-5)
