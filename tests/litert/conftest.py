"""The export of the trained translator."""

import pytest

import keras_transformer as kt


@pytest.fixture
def folder(litert_folder):
    return litert_folder


@pytest.fixture(scope="session")
def litert(litert_folder):
    """Returns the 3 best translations, as the fixture `translator`."""
    return kt.open_translator(litert_folder)
