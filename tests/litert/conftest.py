"""One export of the trained translator for all tests of this folder."""

import pytest

from keras_transformer.export import save_litert
from keras_transformer.litert import LiteRTTranslator


@pytest.fixture(scope="session")
def folder(translator, tmp_path_factory):
    """The folder in float32. Tests must not change it."""
    path = tmp_path_factory.mktemp("models") / "English – Deutsch"
    return save_litert(translator, path)


@pytest.fixture(scope="session")
def litert(folder):
    """Returns the 3 best translations, as the fixture `translator`."""
    return LiteRTTranslator.open(folder)
