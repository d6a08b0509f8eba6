"""Fixtures: the page that `serve` starts, of a model and without one."""

import types

import pytest
from web_server import served

import keras_transformer as kt


@pytest.fixture(scope="session")
def several(translator):
    return kt.Translator(
        translator.model, translator.tokenizer, num_translations=3
    )


@pytest.fixture(scope="session")
def address(several):
    with served(several) as address:
        yield address


@pytest.fixture(scope="session")
def without_model(several):
    """Makes what translates without a model to look into, as an export."""
    names = ("task", "search", "num_translations", "translate")
    values = {name: getattr(several, name) for name in names}
    return lambda languages, example=None: types.SimpleNamespace(
        version=1, **values, languages=languages, example=example
    )


@pytest.fixture(scope="session")
def runtime(without_model):
    with served(without_model((None, None))) as address:
        yield address
