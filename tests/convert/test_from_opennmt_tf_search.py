"""The search that OpenNMT-tf's settings ask for, and what is noted of it."""

import pytest

import keras_transformer as kt
from keras_transformer.convert import from_opennmt_tf
from keras_transformer.convert.settings_file import SettingsFile
from keras_transformer.support.errors import InputError


def test_search():
    read_search = from_opennmt_tf._read_search
    search = read_search(SettingsFile("a.yml", {}))
    assert search == kt.BeamSearch(4, 0.0, 250, 0.0)
    params = dict(
        beam_width=2,
        length_penalty=0.3,
        maximum_decoding_length=9,
        coverage_penalty=0,
        minimum_decoding_length=None,
    )
    search = read_search(SettingsFile("a.yml", params))
    assert search == kt.BeamSearch(2, 0.3, 9, 0.0)


@pytest.mark.parametrize(
    "params, message",
    [
        (dict(coverage_penalty=0.2), "a.yml must have 'coverage_penalty': 0"),
        (dict(minimum_decoding_length=3), "'minimum_decoding_length': 0"),
        (dict(beam_width=0), "a.yml cannot be used. .*beam_size=0"),
        (dict(length_penalty="x"), "a.yml must have 'length_penalty'.*='x'"),
    ],
)
def test_searches_that_are_refused(params, message):
    with pytest.raises(InputError, match=message):
        from_opennmt_tf._read_search(SettingsFile("a.yml", params))


def test_what_no_search_here_does_is_noted():
    params = dict(
        sampling_topk=0,
        sampling_temperature=0.8,
        decoding_noise=[{"dropout": 0.1}],
        replace_unknown_target=False,
        optimizer="Adam",
    )
    settings = SettingsFile("a.yml", params)
    assert settings.notes(from_opennmt_tf._SEARCH_DEFAULTS) == [
        "sampling_topk=0",
        "sampling_temperature=0.8",
        "decoding_noise=[{'dropout': 0.1}]",
    ]
