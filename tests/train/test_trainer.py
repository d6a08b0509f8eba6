"""What `train` checks itself; see also test_resume.py and fitting/."""

import digits
import pytest

from keras_transformer.support.errors import InputError
from keras_transformer.train.trainer import train


def test_a_training_needs_a_folder(corpus):
    with pytest.raises(InputError, match="no output"):
        train(corpus, None, "tiny")


def test_settings_are_checked_first(corpus, tmp_path):
    recipe = digits.recipe(batch_tokens=47)
    with pytest.raises(InputError, match="batch_tokens=47"):
        train(corpus, tmp_path / "new", "tiny", recipe)
    assert not (tmp_path / "new").exists()
