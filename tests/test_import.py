import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import keras_transformer as kt

BLOCK_TENSORFLOW = """
import sys

class NoTensorFlow:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in (
            *("tensorflow", "tensorflow_text", "sentencepiece", "sacrebleu"),
        ):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, NoTensorFlow())
"""
USE_WITHOUT_TENSORFLOW = """
import keras_transformer
import keras_transformer.inference.opening, keras_transformer.tasks
import keras_transformer.text
assert not {"h5py", "keras", "tensorflow"} & set(sys.modules)

import keras
import numpy as np
from keras_transformer import Transformer

model = keras.models.load_model(sys.argv[1])
assert isinstance(model, Transformer)

import keras_transformer as kt

config = model.config
assert model.count_params() == config.num_parameters
labels = np.array([[5, 6, 3]])
batch = {"source": labels, "target": np.array([[2, 5, 6]])}
model.compile(
    kt.optimizers.adam(config.d_model, warmup_steps=4),
    kt.LabelSmoothedCrossEntropy(),
    metrics=[kt.TokenNLL(), kt.Perplexity(), kt.TokenAccuracy()],
)
losses = [model.train_on_batch(batch, labels)[0] for _ in range(10)]
assert losses[-1] < losses[0]

x = kt.layers.EncoderLayer(num_heads=2, d_ff=8)(model.embedding(labels))
assert x.shape == (1, 3, 8)
assert kt.masks.padding_mask(labels, 0).shape == (1, 1, 3)
assert kt.WarmupInverseSquareRoot(8)(0) > 0
assert "base" in kt.presets.PRESETS
assert kt.plotting.attention_figure
assert kt.BeamSearch().beam_size == 4

for name in ("save", "save_litert"):
    try:
        getattr(kt.export, name)
    except ValueError as error:
        assert "need Keras on TensorFlow" in str(error)
    else:
        raise AssertionError(name)
assert kt.export.save_ctranslate2 and kt.export.save_huggingface
assert not [name for name in sys.modules if name.startswith("tensorflow")]
"""


def run_python(code, *arguments, **environment):
    """Runs a program in a new process; returns its stdout and stderr."""
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout, result.stderr


def test_layers_model_and_training_work_without_tensorflow(tmp_path):
    model = kt.Transformer(
        kt.TransformerConfig(
            vocab_size=20,
            num_layers=1,
            d_model=8,
            d_ff=8,
            num_heads=1,
            dropout=0.0,
        )
    )
    model.compile(
        kt.optimizers.adam(8, warmup_steps=4),
        kt.LabelSmoothedCrossEntropy(),
        metrics=[kt.TokenAccuracy()],
    )
    model.save(tmp_path / "model.keras")
    run_python(
        BLOCK_TENSORFLOW + USE_WITHOUT_TENSORFLOW,
        str(tmp_path / "model.keras"),
        KERAS_BACKEND="jax",
        JAX_PLATFORMS="cpu",
        JAX_DISABLE_MOST_OPTIMIZATIONS="1",
    )


def test_a_machine_without_tensorflow_is_told_the_extra():
    code = """
import keras_transformer as kt
try:
    kt.Transformer
except ImportError as error:
    print(error)
"""
    message, _ = run_python(BLOCK_TENSORFLOW + code, KERAS_BACKEND="tensorflow")
    assert ".[tensorflow]" in message
    assert "KERAS_BACKEND" in message


def test_a_saved_model_needs_tensorflow_text(translator, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    with pytest.raises(ImportError, match=r"\.\[savedmodel\]"):
        kt.export.save(translator, tmp_path / "1")
    assert not any(tmp_path.iterdir())


def test_every_public_name_is_listed_and_can_be_imported():
    assert set(kt.__all__) <= set(dir(kt))
    for name in kt.__all__:
        assert getattr(kt, name) is not None
    assert kt.Transformer is kt.model.Transformer
    assert kt.layers.Encoder.__module__ == "keras_transformer.layers.encoder"


@pytest.mark.parametrize(
    "package",
    ["", ".bulk", ".decoding", ".export", ".litert", ".train"],
)
def test_type_checkers_see_the_same_names_as_python(package):
    package = importlib.import_module(f"keras_transformer{package}")
    stub = Path(package.__file__).with_suffix(".pyi").read_text("utf-8")
    names = {}
    statements = ast.parse(stub).body
    for statement in statements:
        if not isinstance(statement, ast.ImportFrom):
            continue
        for alias in statement.names:
            # A package with types re-exports only what is renamed to itself.
            assert alias.name == alias.asname
            names[alias.name] = statement.module
    assert set(names) == set(package.__all__)
    for name, module in names.items():
        expected = getattr(package, name)  # imports the module
        assert getattr(sys.modules[module], name) is expected


def test_every_public_name_can_be_imported_quietly_without_the_extras():
    code = """
import importlib, sys
for package in (
    *("fastapi", "uvicorn", "pydantic", "matplotlib"),
    *("ai_edge_litert", "ctranslate2", "apache_beam", "huggingface_hub"),
):
    sys.modules[package] = None
import keras_transformer as kt
kt.Translator  # imports TensorFlow
from keras_transformer import *
assert web is kt.web
assert kt.export.save
for package in ("", ".decoding", ".train"):
    module = importlib.import_module(f"keras_transformer{package}")
    for name in module.__all__:
        value = getattr(module, name)
        # It is found without `__getattr__` from now on.
        assert vars(module)[name] is value
config = kt.TransformerConfig(
    vocab_size=9, num_layers=1, d_model=4, d_ff=4, num_heads=1
)
import tensorflow as tf
ids = tf.constant([[5, 6]])
kt.Transformer(config)({"source": ids, "target": ids})
"""
    printed = run_python(code, KERAS_BACKEND="tensorflow")
    assert printed == ("", "")


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'keras_transformer'.*'Bert'"):
        kt.Bert  # noqa: B018
    assert not hasattr(kt, "nothing")
