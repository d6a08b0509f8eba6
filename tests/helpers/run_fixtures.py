"""A run folder without a checkpoint, and its parts."""

import digits
import pytest

from keras_transformer import Tokenizer, Transformer, TransformerConfig
from keras_transformer.runs.run_folder import Run


def create_run(path, model, tokenizer, step=1, **values):
    """Creates a run with a checkpoint."""
    run = Run.create(path, model.config, tokenizer, **values)
    run.save_checkpoint(model, step, max_to_keep=1)
    return run


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(["the cat sleeps", "die Katze schläft"], 280)


@pytest.fixture(scope="module")
def model(tokenizer):
    size = tokenizer.vocab_size
    return Transformer(TransformerConfig(vocab_size=size, **digits.TINY))


@pytest.fixture
def run(tmp_path, model, tokenizer):
    path, request = tmp_path / "run", {"seed": 3, "max_to_keep": 3}
    return Run.create(path, model.config, tokenizer, request=request)
