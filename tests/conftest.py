import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import pytest


@pytest.fixture(autouse=True)
def _same_start():
    """No test depends on what ran before it, nor on a user's settings."""
    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy("float32")
