"""The folder for LiteRT: its files, and models that are not exported."""

import dataclasses
import hashlib
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from random_models import random_translator

import keras_transformer as kt
from keras_transformer.export import save_litert
from keras_transformer.export.litert import to_litert as writer
from keras_transformer.support.errors import InputError


@pytest.fixture
def converted(litert_folder, monkeypatch):
    """Replaces the conversion, which is slow, by the trained model."""
    content = (litert_folder / "model.tflite").read_bytes()
    monkeypatch.setattr(writer, "_convert", lambda *_: content)


def test_files_and_metadata(litert_folder, translator):
    assert {child.name for child in litert_folder.iterdir()} == {
        *("model.tflite", "tokenizer.model", "tokenizer.json"),
        *("keras_transformer.json", "README.md"),
    }
    tokenizer = kt.Tokenizer.load(litert_folder / "tokenizer.model")
    assert tokenizer.digest == translator.tokenizer.digest
    found = json.loads((litert_folder / "keras_transformer.json").read_text())
    model = (litert_folder / "model.tflite").read_bytes()
    assert found == {
        "keras_transformer": kt.__version__,
        "tensorflow": tf.__version__,
        "tokenizer_sha256": translator.tokenizer.digest,
        "model_sha256": hashlib.sha256(model).hexdigest(),
        "models": 1,
        "dtype": "float32",
        "search": dataclasses.asdict(translator.search),
        "largest_beam_size": 4,
        "num_translations": 3,
        "max_length": 24,
        "attention_window": None,
        "pad_id": 0,
        "bos_id": 2,
        "eos_id": 3,
        "banned_ids": [0, 1, 2],
        "runs": [],
    }
    assert kt.open_translator(litert_folder).metadata == found


def test_a_translator_that_samples(model, tokenizer, converted, tmp_path):
    sampling = kt.Sampling(alpha=0.3, extra_length=7)
    sampler = kt.Translator(model, tokenizer, sampling)
    found = kt.open_translator(save_litert(sampler, tmp_path / "model"))
    assert found.search == kt.BeamSearch(alpha=0.3, extra_length=7)
    assert found("dog") == "Hund"


@pytest.mark.parametrize("policy", ["bfloat16", "mixed_float16"])
def test_other_dtypes(tokenizer, tmp_path, policy):
    keras.config.set_dtype_policy(policy)
    translator = random_translator(tokenizer, num_layers=1)
    with pytest.raises(InputError, match=f"dtype={policy}"):
        save_litert(translator, tmp_path / "model")


@keras.saving.register_keras_serializable()
class OtherFeedForward(kt.layers.FeedForward):
    """Computes a different function, with operations that LiteRT has."""

    def call(self, x, *arguments, **options):
        return super().call(x, *arguments, **options) + 0.1 * tf.tanh(x)


@pytest.mark.slow
def test_a_larger_beam_and_a_feed_forward_of_another_class(tokenizer, tmp_path):
    config = random_translator(tokenizer, num_layers=1).model.config
    config = dataclasses.replace(config, feed_forward_class=OtherFeedForward)
    model = kt.Transformer(config)
    # The search has enough candidates, whatever it bans.
    search = kt.BeamSearch(6, no_repeat_ngram=1)
    translator = kt.Translator(model, tokenizer, search, 6)
    found = kt.open_translator(save_litert(translator, tmp_path / "a"))
    assert found.metadata["largest_beam_size"] == 6
    ours, theirs = found.translate("dog"), translator.translate("dog")
    assert ours.texts == theirs.texts and len(ours.texts) == 6
    np.testing.assert_allclose(ours.scores, theirs.scores, atol=1e-4)


def test_a_different_model_is_not_written(
    model, tokenizer, converted, tmp_path
):
    other = kt.Translator(kt.Transformer(model.config), tokenizer)
    with pytest.raises(RuntimeError, match="I am"):
        save_litert(other, tmp_path / "model")
    assert not list(tmp_path.iterdir())
