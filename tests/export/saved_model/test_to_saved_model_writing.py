"""Writing a SavedModel: what is refused, and what is left after an error."""

import contextlib
import json
import os
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.export import save
from keras_transformer.export.saved_model import (
    serving_operations,
    to_saved_model,
)
from keras_transformer.inference.records import Translation
from keras_transformer.support.errors import InputError


def listing(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def test_leaves_nothing_beside_the_export(exported):
    assert os.listdir(exported.parent) == ["1"]
    assert {"saved_model.pb", "variables"} <= set(os.listdir(exported))


@pytest.mark.parametrize("kind", ["folder", "empty folder", "file", "link"])
def test_never_overwrites(translator, tmp_path, kind):
    path = tmp_path / "1"
    if kind == "file":
        path.write_text("precious")
    elif kind == "link":
        path.symlink_to("nowhere")
    else:
        path.mkdir()
    if kind == "folder":
        (path / "saved_model.pb").write_text("precious")
    before = listing(tmp_path)
    with pytest.raises(InputError, match=f"{path} already exists"):
        save(translator, path)
    assert listing(tmp_path) == before
    if kind in ("file", "folder"):
        file = path if kind == "file" else path / "saved_model.pb"
        assert file.read_text() == "precious"


def fake_export(monkeypatch, saved):
    """Replaces writing, and loading in a new process, which returns `saved`."""
    monkeypatch.setattr(tf.saved_model, "save", lambda *_, **__: None)
    monkeypatch.setattr(serving_operations, "oldest_serving", lambda _: "2.12")
    verify_with(monkeypatch, lambda _, texts: saved)


def verify_with(monkeypatch, translate):
    monkeypatch.setattr(
        to_saved_model,
        "process_that_translates",
        lambda: contextlib.nullcontext(translate),
    )


def test_same_translations_are_accepted(translator, tmp_path, monkeypatch):
    probes = ["", "dog"]
    fake_export(monkeypatch, translator.translate(probes))
    assert save(translator, tmp_path / "a" / "1", probes) == tmp_path / "a/1"
    metadata = f"a/1/{to_saved_model.METADATA_FILE}"
    assert listing(tmp_path) == ["a", "a/1", "a/1/assets.extra", metadata]


def test_metadata_of_runs_and_of_the_user(translator, tmp_path, monkeypatch):
    class Run:
        def metadata(self, checkpoint):
            return {"step": 7, "checkpoint": checkpoint.name}

    fake_export(monkeypatch, translator.translate(["dog"]))
    checkpoints = [(Run(), Path("step-7"))]
    monkeypatch.setattr(translator, "checkpoints", checkpoints)
    path = save(translator, tmp_path / "1", ["dog"], metadata={"by": "me"})
    found = json.loads((path / to_saved_model.METADATA_FILE).read_text())
    assert found["runs"] == [{"step": 7, "checkpoint": "step-7"}]
    assert found["by"] == "me"
    with pytest.raises(InputError, match="built-in one. Received: dtype"):
        save(translator, tmp_path / "2", metadata={"dtype": "mine"})


@pytest.mark.parametrize("difference", ["texts", "scores"])
def test_other_translations_are_refused(
    translator, tmp_path, monkeypatch, difference
):
    empty, dog = translator.translate(["", "dog"])
    if difference == "texts":
        dog = dog._replace(texts=["Katze", *dog.texts[1:]])
    else:
        dog = dog._replace(scores=[score * 1.01 for score in dog.scores])
    fake_export(monkeypatch, [empty, dog])
    with pytest.raises(RuntimeError, match="translate 'dog' as the model"):
        save(translator, tmp_path / "models" / "1", probes=["", "dog"])
    assert listing(tmp_path) == ["models"]


def test_leaves_nothing_of_a_model_that_no_server_can_run(
    translator, tmp_path, monkeypatch
):
    def refuse(path):
        raise InputError(f"No server has the operations of {path.name}.")

    monkeypatch.setattr(tf.saved_model, "save", lambda *_, **__: None)
    monkeypatch.setattr(serving_operations, "oldest_serving", refuse)
    with pytest.raises(InputError, match="No server"):
        save(translator, tmp_path / "1")
    assert listing(tmp_path) == []


def test_leaves_nothing_after_an_interrupt(translator, tmp_path, monkeypatch):
    def interrupt(module, path, signatures):
        (path / "saved_model.pb").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(tf.saved_model, "save", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(translator, tmp_path / "1")
    assert listing(tmp_path) == []


@pytest.fixture
def small_translator(tokenizer):
    """Not trained: tests may change its weights."""
    config = kt.TransformerConfig(
        vocab_size=tokenizer.vocab_size,
        num_layers=1,
        d_model=8,
        d_ff=8,
        num_heads=2,
        max_length=8,
    )
    return kt.Translator(kt.Transformer(config), tokenizer)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused(
    small_translator, tmp_path, value
):
    weight = small_translator.model.weights[3]
    values = weight.numpy()
    values.flat[-1] = value
    weight.assign(values)
    count = len(small_translator.model.weights)
    with pytest.raises(
        InputError, match=f"in 1 of {count} weights, .*{weight.path}"
    ):
        save(small_translator, tmp_path / "1")
    assert listing(tmp_path) == []


@pytest.mark.slow
def test_a_quantized_model(small_translator, tmp_path, monkeypatch):
    model = small_translator.model
    model.quantize("int8")
    translator = kt.Translator(model, small_translator.tokenizer)
    assert {w.dtype for w in model.weights} == {"float32", "int8"}

    def translate_here(path, texts):
        loaded = tf.saved_model.load(path).signatures["serving_default"]
        outputs = loaded(text=tf.constant(texts))
        (text,) = outputs["translations"].numpy()[0].tolist()
        scores = outputs["scores"].numpy()[0].tolist()
        return [
            Translation([text.decode("utf-8", "replace")], scores, False, True)
        ]

    # A new process takes seconds.
    verify_with(monkeypatch, translate_here)
    path = save(translator, tmp_path / "1", ["dog"], ["serving_default"])
    weights = tf.train.load_checkpoint(str(path / "variables/variables"))
    types = weights.get_variable_to_dtype_map().values()
    count = sum(weight.dtype == "int8" for weight in model.weights)
    assert list(types).count(tf.int8) == count > 0

    # What docs/layers.md says of Keras' own files.
    model.save(tmp_path / "a.keras")
    with pytest.raises(ValueError, match="objects could not be loaded"):
        keras.models.load_model(tmp_path / "a.keras")
    model.save_weights(tmp_path / "a.weights.h5")
    other = kt.Transformer(model.config)
    other.quantize("int8")
    other.load_weights(tmp_path / "a.weights.h5")
    for ours, theirs in zip(
        other.get_weights(), model.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_scores_that_are_not_finite_are_refused(
    small_translator, tmp_path, monkeypatch
):
    for weight in small_translator.model.weights:
        weight.assign(tf.fill(weight.shape, 1e30))  # overflows
    fake_export(monkeypatch, small_translator.translate(to_saved_model.PROBES))
    with pytest.raises(InputError, match="must be finite. Received: score="):
        save(small_translator, tmp_path / "1")
    assert listing(tmp_path) == []
