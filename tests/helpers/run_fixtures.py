"""A run folder without a checkpoint, and its parts."""

import pytest

from keras_transformer import Tokenizer, Transformer, TransformerConfig
from keras_transformer.inference.run_folder import Run


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(["the cat sleeps", "die Katze schläft"], 280)


@pytest.fixture(scope="module")
def model(tokenizer):
    config = TransformerConfig(
        vocab_size=tokenizer.vocab_size,
        num_layers=1,
        d_model=16,
        d_ff=16,
        num_heads=2,
    )
    return Transformer(config)


@pytest.fixture
def run(tmp_path, model, tokenizer):
    recipe = {"seed": 3, "max_to_keep": 3}
    return Run.create(tmp_path / "run", model.config, recipe, tokenizer)
