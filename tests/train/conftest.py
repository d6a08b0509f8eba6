import digits
import pytest

from keras_transformer.train.data.corpus import open_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    digits.write(folder)
    return open_corpus([str(folder)], "en", "de")
