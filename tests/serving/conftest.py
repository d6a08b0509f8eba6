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
def without_model(several):
    """Makes translators without attention, as exports are."""

    def make(languages, example=None):
        source, target = languages
        run = {"source": source, "target": target, "example": example}
        return FakeTranslator(
            several.num_translations,
            search=several.search,
            capabilities=frozenset(),
            translate=several.translate,
            metadata={"runs": [run]},
        )

    return make


@pytest.fixture(scope="session")
def runtime(without_model):
    with served(without_model((None, None))) as address:
        yield address
