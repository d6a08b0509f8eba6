"""Stored weights become a model; formats are recognized by their files."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from helpers import randomise, to_numpy

import keras_transformer as kt
from keras_transformer import convert
from keras_transformer.convert import ForeignModel
from keras_transformer.convert.weight_table import weight_names
from keras_transformer.weights import named_weights

CONFIG = kt.TransformerConfig(
    vocab_size=11,
    num_layers=1,
    d_model=4,
    d_ff=6,
    num_heads=2,
    max_length=5,
    activation="swish",
    layer_norm_epsilon=1e-5,
)


def transposed(name, value):
    return value.T if name.endswith("/kernel") else value


@pytest.fixture(scope="module")
def foreign():
    model = kt.Transformer(CONFIG)
    randomise(model)
    names = weight_names(CONFIG, "hugging_face")
    tensors = {
        names[name]: transposed(name, to_numpy(value))
        for name, value in named_weights(model).items()
    }
    found = ForeignModel(
        system="a test",
        config=CONFIG,
        tokenizer=None,
        search=kt.BeamSearch(),
        languages=("en", "de"),
        file=Path("model.safetensors"),
        tensors={**tensors, "positions": np.zeros(3)},
        names=names,
        convert=transposed,
        unused=["positions"],
    )
    return found, model


def test_weights(foreign):
    found, model = foreign
    loaded = named_weights(found.load_model())
    for name, value in named_weights(model).items():
        np.testing.assert_array_equal(to_numpy(loaded[name]), to_numpy(value))
    assert found.load_model("bfloat16").dtype_policy.name == "bfloat16"


def test_all_wrong_tensors_are_reported_by_their_own_names(foreign):
    found, _ = foreign
    names = weight_names(CONFIG, "hugging_face")
    tensors = dict(found.tensors)
    del tensors[names["encoder/layer_0/self_attention/key/kernel"]]
    inner = "decoder/layer_0/feed_forward/inner/kernel"
    tensors[names[inner]] = np.zeros((4, 6))
    tensors["model.encoder.layers.1.fc1.weight"] = np.zeros((6, 4))
    with pytest.raises(kt.InputError, match="model.safetensors") as error:
        dataclasses.replace(found, tensors=tensors).load_model()
    assert sorted(str(error.value).split("\n")[1:]) == [
        "model.decoder.layers.0.fc1.weight: shape [6, 4] instead of [4, 6]",
        "model.encoder.layers.0.self_attn.k_proj.weight: missing",
        "model.encoder.layers.1.fc1.weight: the model has no such weight",
    ]


def test_differences_from_the_paper(foreign):
    found, _ = foreign
    config = dataclasses.replace(CONFIG, decoder_layers=2, dropout=0.3)
    found = dataclasses.replace(found, config=config)
    differences = dict(activation="swish", layer_norm_epsilon=1e-5)
    assert found.differences() == differences


@pytest.mark.parametrize(
    ("file", "format"),
    [
        ("config.json", "huggingface"),
        ("model.npz", "marian"),
        ("best.decoder.yml", "marian"),
        ("ckpt-10.index", "opennmt-tf"),
        ("avg/ckpt-10.index", "opennmt-tf"),
    ],
)
def test_formats_are_recognized(tmp_path, monkeypatch, file, format):
    (tmp_path / "avg").mkdir()
    (tmp_path / file).touch()
    for name, known in convert.FORMATS.items():
        new = known._replace(read=lambda _, name=name: name)
        monkeypatch.setitem(convert.FORMATS, name, new)
    assert convert.read(tmp_path) == format
    assert convert.read(tmp_path, format) == format


def test_folders_without_a_model(tmp_path):
    for arguments, received in (
        ((tmp_path,), str(tmp_path)),
        ((tmp_path, "t5"), "format.*'t5'"),
        ((tmp_path, "marian"), "decoder.yml"),
        ((tmp_path / "gone",), "gone, not a folder"),
    ):
        with pytest.raises(kt.InputError, match=received):
            convert.read(*arguments)
