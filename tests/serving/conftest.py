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
def exported_translator():
    """A translator with as little as an export for LiteRT has."""
    return FakeTranslator(
        num_translations=3, max_length=4, capabilities=frozenset({"prefixes"})
    )


@pytest.fixture(scope="session")
def address_of_export(exported_translator):
    with served(exported_translator) as address:
        yield address
