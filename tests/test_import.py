import os
import subprocess
import sys

import pytest

import keras_transformer as kt

WITHOUT_TENSORFLOW = """
import sys

class NoTensorFlow:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tensorflow", "tensorflow_text"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoTensorFlow())
"""
USE_EVERYTHING_PORTABLE = """
import numpy as np
import keras_transformer as kt

config = kt.TransformerConfig.from_preset(
    "tiny", vocab_size=20, d_model=8, d_ff=8, num_layers=1, dropout=0.0
)
model = kt.Transformer(config)
assert model.count_params() == config.num_parameters
labels = np.array([[5, 6, 3]])
batch = {"source": labels, "target": np.array([[2, 5, 6]])}
model.compile(
    kt.optimizers.adam(config.d_model, warmup_steps=4),
    kt.LabelSmoothedCrossEntropy(),
    metrics=[kt.TokenNLL(), kt.Perplexity(), kt.TokenAccuracy()],
)
first = model.train_on_batch(batch, labels)[0]
for _ in range(10):
    last = model.train_on_batch(batch, labels)[0]
assert last < first

x = kt.layers.EncoderLayer(num_heads=2, d_ff=8)(model.embedding(labels))
assert x.shape == (1, 3, 8)
assert kt.masks.padding_mask(labels, 0).shape == (1, 1, 3)
assert kt.WarmupInverseSquareRoot(8)(0) > 0
assert "base" in kt.presets.PRESETS
assert not [name for name in sys.modules if name.startswith("tensorflow")]
"""


def run(code, **environment):
    """Runs a program in a Python of its own."""
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr


def test_layers_model_and_training_work_without_tensorflow():
    pytest.importorskip("jax")
    run(
        WITHOUT_TENSORFLOW + USE_EVERYTHING_PORTABLE,
        KERAS_BACKEND="jax",
        JAX_PLATFORMS="cpu",
    )


def test_what_needs_tensorflow_says_so_when_it_is_used():
    code = """
import keras_transformer as kt
for name in ("BeamSearch", "Translator"):
    try:
        getattr(kt, name)
    except ModuleNotFoundError as error:
        assert "tensorflow" in str(error)
    else:
        raise AssertionError(name)
"""
    run(WITHOUT_TENSORFLOW + code, KERAS_BACKEND="jax", JAX_PLATFORMS="cpu")


def test_importing_the_package_loads_neither_keras_nor_tensorflow():
    run(
        "import sys, keras_transformer\n"
        "assert not {'keras', 'tensorflow'} & set(sys.modules)"
    )


def test_every_public_name_is_listed_and_loads():
    assert set(kt.__all__) <= set(dir(kt))
    for name in kt.__all__:
        assert getattr(kt, name) is not None
    assert kt.Transformer is kt.model.Transformer
    assert kt.layers.Encoder.__module__ == "keras_transformer.layers.encoder"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'keras_transformer'.*'Bert'"):
        kt.Bert  # noqa: B018
    assert not hasattr(kt, "nothing")


def test_importing_a_class_registers_all_for_loading(tmp_path):
    model = kt.Transformer(
        kt.TransformerConfig(
            vocab_size=9, num_layers=1, d_model=4, d_ff=4, num_heads=1
        )
    )
    model.compile(
        kt.optimizers.adam(4, warmup_steps=4),
        kt.LabelSmoothedCrossEntropy(),
        metrics=[kt.TokenAccuracy()],
    )
    model.save(tmp_path / "model.keras")
    run(
        "import keras\n"
        "from keras_transformer import Transformer\n"
        f"model = keras.models.load_model({str(tmp_path / 'model.keras')!r})\n"
        "assert isinstance(model, Transformer)\n"
    )
