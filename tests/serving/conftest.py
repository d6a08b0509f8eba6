"""Fixtures: the page that `serve` starts, of a model and without one."""

import pytest
from fake_translator import FakeTranslator
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
def address_of_export():
    """Of a translator with as little as an export for LiteRT has."""
    translator = FakeTranslator(
        num_translations=3, max_length=4, capabilities=frozenset({"prefixes"})
    )
    with served(translator) as address:
        yield address
