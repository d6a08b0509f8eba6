"""The folder for LiteRT: what it has, and what is refused."""

import dataclasses
import hashlib
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.export import save_litert
from keras_transformer.export.litert import to_litert as writer
from keras_transformer.support.errors import InputError


@pytest.fixture(scope="module")
def folder(translator, tmp_path_factory):
    """The export of the trained translator. Tests must not change it."""
    path = tmp_path_factory.mktemp("models") / "new" / "en-de"
    return save_litert(translator, path, metadata={"by": "me"})


@pytest.fixture
def converted(folder, monkeypatch):
    """Makes the trained model what conversion, which takes long, returns."""
    content = (folder / "model.tflite").read_bytes()
    monkeypatch.setattr(writer, "_convert", lambda *_: content)


def listing(path):
    return {child.name for child in path.iterdir()}


# === What is in the folder ===


def test_files(folder, translator):
    assert listing(folder) == {
        *("model.tflite", "tokenizer.model", "keras_transformer.json"),
        "README.md",
    }
    assert listing(folder.parent) == {"en-de"}
    tokenizer = kt.Tokenizer.load(folder / "tokenizer.model")
    assert tokenizer.digest == translator.tokenizer.digest


def test_metadata(folder, translator):
    found = json.loads((folder / "keras_transformer.json").read_text())
    model = (folder / "model.tflite").read_bytes()
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
        "by": "me",
    }
    assert kt.open_translator(folder).metadata == found


def test_a_translator_that_samples(model, tokenizer, converted, tmp_path):
    sampling = kt.Sampling(alpha=0.3, extra_length=7)
    sampler = kt.Translator(model, tokenizer, sampling)
    found = kt.open_translator(save_litert(sampler, tmp_path / "model"))
    assert found.search == kt.BeamSearch(alpha=0.3, extra_length=7)
    assert found("dog") == "Hund"


# === What is refused ===


def small_model(tokenizer, **fields):
    classes = {k: fields.pop(k) for k in [*fields] if k.endswith("_class")}
    sizes = dict(vocab_size=tokenizer.vocab_size, max_length=24)
    sizes |= dict(num_layers=1, d_model=8, d_ff=8, num_heads=2)
    return kt.Transformer(kt.TransformerConfig(**sizes | fields), **classes)


def refused(translator, tmp_path, message, error=InputError, **arguments):
    with pytest.raises(error, match=message):
        save_litert(translator, tmp_path / "model", **arguments)
    assert not listing(tmp_path)


@pytest.mark.parametrize("policy", ["bfloat16", "mixed_float16"])
def test_other_dtypes(tokenizer, tmp_path, policy):
    keras.config.set_dtype_policy(policy)
    other = kt.Translator(small_model(tokenizer), tokenizer)
    refused(other, tmp_path, f"dtype={policy}")


class OtherFeedForward(kt.layers.FeedForward):
    """Computes something else, with operations that LiteRT has."""

    def call(self, x, *arguments, **options):
        return super().call(x, *arguments, **options) + 0.1 * tf.tanh(x)


@pytest.mark.slow
def test_a_larger_beam_and_a_feed_forward_of_another_class(tokenizer, tmp_path):
    model = small_model(tokenizer, feed_forward_class=OtherFeedForward)
    # There are enough candidates, whatever is banned.
    search = kt.BeamSearch(6, no_repeat_ngram=1)
    translator = kt.Translator(model, tokenizer, search, 6)
    found = kt.open_translator(save_litert(translator, tmp_path / "a"))
    assert found.metadata["largest_beam_size"] == 6
    ours, theirs = found.translate("dog"), translator.translate("dog")
    assert ours.texts == theirs.texts and len(ours.texts) == 6
    np.testing.assert_allclose(ours.scores, theirs.scores, atol=1e-4)


def test_another_model_is_not_written(model, tokenizer, converted, tmp_path):
    other = kt.Transformer(model.config)
    message = "I am a student"
    refused(kt.Translator(other, tokenizer), tmp_path, message, RuntimeError)
