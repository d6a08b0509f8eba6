"""The export of the trained translator."""

import pytest

from keras_transformer.litert import LiteRTTranslator


@pytest.fixture
def folder(litert_folder):
    return litert_folder


@pytest.fixture(scope="session")
def litert(litert_folder):
    """Returns the 3 best translations, as the fixture `translator`."""
    return LiteRTTranslator.open(litert_folder)
