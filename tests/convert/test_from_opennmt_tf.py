"""Checkpoints of OpenNMT-tf; reference/ compares the numbers."""

import shutil
from pathlib import Path

import numpy as np
import opennmt_folder
import pytest
from helpers import to_numpy

import keras_transformer as kt
from keras_transformer import convert
from keras_transformer.convert import from_opennmt_tf
from keras_transformer.convert.settings_file import SettingsFile
from keras_transformer.convert.weight_table import weight_names
from keras_transformer.support.errors import InputError
from keras_transformer.weights import named_weights

VARIANTS = {
    "separate": {},
    "unequal": dict(
        attention_bias=False,
        output_bias=False,
        num_layers=1,
        decoder_layers=2,
        tied_embeddings="inputs",
    ),
    # As ScalingNmtEnDe.
    "post-norm": dict(
        tied_embeddings="all", norm_first=False, output_bias=False
    ),
    "target": dict(tied_embeddings="target", norm_first=False),
}


def read(folder):
    return convert.read(folder, "opennmt-tf")


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_model(tmp_path, variant):
    model = opennmt_folder.write_folder(tmp_path, **VARIANTS[variant])
    found = read(tmp_path)
    assert found.config == model.config
    assert found.system == (
        "OpenNMT-tf 2, ckpt-10, 4 heads (model_description.py)"
    )
    assert found.search == kt.BeamSearch(
        2, alpha=0.0, extra_length=250, length_factor=0.0
    )
    assert found.notes == []
    expected = named_weights(model)
    for name, value in named_weights(found.load_model()).items():
        np.testing.assert_array_equal(value, to_numpy(expected[name]), name)


@pytest.mark.parametrize(
    ("steps", "newest"),
    [
        (["ckpt-9", "ckpt-10"], "ckpt-10"),
        (["ckpt-10", "avg/ckpt-10"], "avg/ckpt-10"),
        # Training continued after the average.
        (["ckpt-11", "avg/ckpt-10"], "ckpt-11"),
        (["ckpt"], "ckpt"),
        (["avg/ckpt-3"], "avg/ckpt-3"),
    ],
)
def test_the_newest_checkpoint_is_read(tmp_path, steps, newest):
    for step in steps:
        (tmp_path / step).parent.mkdir(exist_ok=True)
        (tmp_path / f"{step}.index").touch()
    assert from_opennmt_tf._newest(tmp_path) == tmp_path / newest


# === Description ===


def description(folder, text, d_model=16):
    # It is never executed.
    text = f"raise SystemExit\nmodel = lambda: {text}\n"
    (folder / "model_description.py").write_text(text)
    return from_opennmt_tf._read_description(folder, d_model)


@pytest.mark.parametrize(
    ("text", "heads", "activation", "ends_sources"),
    [
        ('get_model_from_catalog("TransformerTiny")', 2, "relu", False),
        ('get_model_from_catalog("TransformerBase")', 8, "relu", False),
        ('get_model_from_catalog("ScalingNmtEnFr")', 16, "relu", True),
        ("Transformer(num_heads = 2, num_units=16)", 2, "relu", False),
        (
            "Transformer(num_heads=8, ffn_activation=tf.nn.gelu)",
            *(8, "gelu", False),
        ),
        (
            "Transformer(ffn_activation=tf.nn.swish, num_heads=1, "
            "position_encoder_class=onmt.layers.SinusoidalPositionEncoder)",
            *(1, "swish", False),
        ),
    ],
)
def test_descriptions(tmp_path, text, heads, activation, ends_sources):
    found = description(tmp_path, text)
    assert (found.num_heads, found.activation) == (heads, activation)
    assert found.ends_sources == ends_sources


@pytest.mark.parametrize(
    ("text", "received"),
    [
        ("Transformer(num_heads=heads)", "num_heads .*: heads"),
        (
            "[Transformer(num_heads=4), Transformer(num_heads=2)]",
            "num_heads .*: 2, 4",
        ),
        ("Transformer(num_heads=3)", "width 16.*: 3"),
        (
            "Transformer(ffn_activation=tf.nn.tanh)",
            "ffn_activation .*: tf.nn.tanh",
        ),
        # Its own approximation.
        ("Transformer(ffn_activation=onmt.layers.gelu)", "onmt.layers.gelu"),
        ("LuongAttention()", "none"),
        ("Transformer(None, None, 6, 16, 4)", "none"),
    ],
)
def test_invalid_descriptions(tmp_path, text, received):
    with pytest.raises(InputError, match=f"model_description.*{received}"):
        description(tmp_path, text)


def test_heads_without_a_description(tmp_path):
    read_description = from_opennmt_tf._read_description
    assert read_description(tmp_path, 128).num_heads == 2
    with pytest.raises(InputError, match="no file"):
        read_description(tmp_path, 16)


# === Errors ===


@pytest.mark.parametrize(
    ("old", "new", "missing"),
    [
        ("features_inputter/", "features_inputter/inputters/0/", "embedding"),
        ("encoder/layers/0/", "encoder/cell/cells/0/", "inner/kernel"),
        ("model/", "transformer/", "features_inputter/embedding"),
    ],
)
def test_other_architectures(old, new, missing):
    config = kt.TransformerConfig(vocab_size=9, num_layers=1)
    names = weight_names(config, "opennmt_tf").values()
    shapes = {name.replace(old, new): [2, 2] for name in names}
    with pytest.raises(InputError, match=f"ckpt-20.*{missing}"):
        from_opennmt_tf._check_architecture(Path("ckpt-20"), shapes)


def test_damaged_checkpoints(tmp_path):
    opennmt_folder.write_folder(tmp_path, num_layers=1)
    index = tmp_path / "ckpt-10.index"
    data = tmp_path / "ckpt-10.data-00000-of-00001"
    shutil.copy(data, tmp_path / "data")
    data.write_bytes(data.read_bytes()[:5000])
    with pytest.raises(InputError, match="ckpt-10"):
        read(tmp_path).load_model()
    shutil.copy(tmp_path / "data", data)
    index.write_bytes(index.read_bytes()[:100])
    with pytest.raises(InputError, match="ckpt-10"):
        read(tmp_path)
    index.unlink()
    with pytest.raises(InputError, match=r"opennmt-tf \(ckpt\*.index"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("files", "received"),
    [
        ({}, "no YAML file"),
        ({"a.yml": "data: {}", "b.yaml": "data: {}"}, "a.yml, b.yaml"),
        ({"a.yml": "model_dir: run"}, "a.yml"),
        ({"a.yml": "data: ["}, "a.yml"),
    ],
)
def test_invalid_settings(tmp_path, files, received):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=received):
        from_opennmt_tf._read_settings(tmp_path)


# === Search ===


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, (4, 0.0, 250, 0.0)),
        (
            dict(
                beam_width=2,
                length_penalty=0.3,
                maximum_decoding_length=9,
                coverage_penalty=0,
                minimum_decoding_length=None,
            ),
            (2, 0.3, 9, 0.0),
        ),
    ],
)
def test_search(params, expected):
    found = from_opennmt_tf._read_search(SettingsFile("a.yml", params))
    names = ("beam_size", "alpha", "extra_length", "length_factor")
    assert found == kt.BeamSearch(**dict(zip(names, expected, strict=True)))


@pytest.mark.parametrize(
    ("params", "received"),
    [
        (dict(coverage_penalty=0.2), "coverage_penalty=0.2"),
        (dict(minimum_decoding_length=3), "minimum_decoding_length=3"),
        (dict(beam_width=0), "beam_size must"),
        (dict(length_penalty="x"), "length_penalty='x'"),
    ],
)
def test_other_searches(params, received):
    with pytest.raises(InputError, match=f"a.yml .*{received}"):
        from_opennmt_tf._read_search(SettingsFile("a.yml", params))


def test_unsupported_settings_are_noted():
    noted = dict(
        sampling_topk=0,
        sampling_temperature=0.8,
        decoding_noise=[{"dropout": 0.1}],
    )
    neutral = dict(replace_unknown_target=False, optimizer="Adam")
    found = SettingsFile("a.yml", noted | neutral)
    expected = [f"{name}={value}" for name, value in noted.items()]
    assert found.notes(from_opennmt_tf._SEARCH_DEFAULTS) == expected
