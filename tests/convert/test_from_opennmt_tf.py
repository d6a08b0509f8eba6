"""Checkpoints as OpenNMT-tf writes them, against float64 NumPy."""

import functools
import re
from pathlib import Path

import numpy as np
import numpy_reference as reference
import pytest
from opennmt_folder import (
    random_weights,
    write_checkpoint,
    write_texts,
)

import keras_transformer as kt
from keras_transformer import convert
from keras_transformer.convert import from_opennmt_tf
from keras_transformer.support.errors import InputError

SOURCE = np.array([[5, 9, 3, 7, 11, 0], [7, 4, 8, 300, 12, 2]], "int32")
TARGET = np.array([[1, 6, 5, 10, 4], [1, 8, 310, 0, 0]], "int32")
HEADS = "model = lambda: Transformer(num_units=16, num_heads=4)\n"
VARIANTS = {
    "separate": {},
    "unequal-without-biases": dict(
        attention_bias=False, output_bias=False, layers=(1, 2)
    ),
    "inputs": dict(tied="inputs"),
    # As ScalingNmtEnDe.
    "post-norm": dict(tied="all", pre_norm=False, output_bias=False),
    "post-norm-separate": dict(
        tied="target", pre_norm=False, output_bias=False, layers=(1, 1)
    ),
}
# How names of OpenNMT-tf become those of the reference.
RENAMED = (
    ("^model/", ""),
    ("examples_inputter/features_inputter/", "embedding/"),
    ("examples_inputter/labels_inputter/", "target_embedding/"),
    ("decoder/output_layer/kernel", "output_embedding/embedding"),
    ("decoder/output_layer/bias", "output_embedding/bias"),
    ("/embedding$", "/embeddings"),
    ("coder/layer_norm", "coder/final_norm"),
    (r"layers/(\d+)/", r"layer_\1/"),
    ("/attention/0/", "/cross_attention/"),
    ("/ffn/", "/feed_forward/"),
    ("/(in|out)put_layer_norm", "_norm/norm"),
    ("/layer/linear_", "/"),
    ("/layer/", "/"),
    ("/queries", "/query"),
    ("/keys", "/key"),
    ("/values", "/value"),
)


def write(folder, variant="separate", description=HEADS, **settings):
    """Writes a folder, and returns its weights."""
    options = VARIANTS[variant]
    joint = options.get("tied") in ("all", "inputs")
    folder.mkdir(exist_ok=True)
    weights = random_weights(write_texts(folder, joint, **settings), **options)
    write_checkpoint(folder / "ckpt-10", weights)
    if description is not None:
        (folder / "model_description.py").write_text(description)
    return weights


def read(folder):
    return convert.read(folder, "opennmt-tf")


def positions(length, width):
    """Sines before cosines, from 1 on, the last frequency 1/10000."""
    frequencies = 1e4 ** (-np.arange(width // 2) / (width // 2 - 1))
    angles = (1 + np.arange(length))[:, None] * frequencies
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def expected_logits(weights, pre_norm=True):
    ours = {}
    for name, value in weights.items():
        if name.endswith("output_layer/kernel"):
            value = value.T
        for pattern, renamed in RENAMED:
            name = re.sub(pattern, renamed, name)
        ours[name] = value.astype("float64")
    residual = reference.pre_norm if pre_norm else reference.post_norm
    return reference.transformer(
        ours,
        4,
        SOURCE,
        TARGET,
        sinusoids=positions,
        residual=functools.partial(residual, epsilon=1e-3),
        epsilon=1e-3,
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits(tmp_path, variant):
    weights = write(tmp_path, variant)
    model = read(tmp_path).load_model()
    pre_norm = VARIANTS[variant].get("pre_norm", True)
    expected = expected_logits(weights, pre_norm)
    assert expected.std() > 0.3
    logits = model({"source": SOURCE, "target": TARGET})
    np.testing.assert_allclose(logits, expected, atol=1e-4)


def test_what_a_folder_says(folder):
    found = read(folder)
    assert (
        found.system == "OpenNMT-tf 2, ckpt-10, 4 heads (model_description.py)"
    )
    assert found.search == kt.BeamSearch(2, 0.0, 250, 0.0)
    assert found.notes == []
    assert found.differences() == dict(
        norm_first=True,
        layer_norm_epsilon=1e-3,
        attention_bias=True,
        output_bias=True,
        tied_embeddings="none",
        position_layout="halves",
        position_endpoint=True,
        position_offset=1,
    )


@pytest.mark.parametrize(
    "steps, newest",
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


def test_heads_that_no_file_says(tmp_path):
    description = from_opennmt_tf._read_description(tmp_path, 128)
    assert description.num_heads == 2
    assert description.reason == "64 wide, since no file says otherwise"


@pytest.mark.parametrize(
    "description, heads, activation, ends",
    [
        ('get_model_from_catalog("TransformerTiny")', 2, "relu", False),
        ('get_model_from_catalog("TransformerBase")', 8, "relu", False),
        ('get_model_from_catalog("ScalingNmtEnFr")', 16, "relu", True),
        ("Transformer(num_heads = 2, num_units=16)", 2, "relu", False),
        (
            "Transformer(num_heads=8, ffn_activation=tf.nn.gelu)",
            8,
            "gelu",
            False,
        ),
        (
            "Transformer(ffn_activation=tf.nn.swish, num_heads=1, "
            "position_encoder_class=onmt.layers.SinusoidalPositionEncoder)",
            1,
            "swish",
            False,
        ),
    ],
)
def test_what_no_shape_says_is_in_the_description(
    folder, description, heads, activation, ends
):
    # It is never executed.
    text = f"raise SystemExit\nmodel = lambda: {description}\n"
    (folder / "model_description.py").write_text(text)
    found = read(folder)
    assert found.config.num_heads == heads
    assert found.config.activation == activation
    end = found.vocabulary.source_eos_id
    assert end == (found.config.eos_id if ends else found.config.pad_id)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("opennmt") / "run"
    write(folder)
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    """A folder that a test may change."""
    copy = tmp_path / "run"
    copy.mkdir()
    for path in whole.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    return copy


@pytest.mark.parametrize(
    "description, message",
    [
        ("Transformer(num_heads=heads)", "num_heads once, .*Received: heads"),
        (
            "[Transformer(num_heads=4), Transformer(num_heads=2)]",
            "model_description.py must have num_heads once, .*: 2, 4",
        ),
        ("Transformer(num_heads=3)", "heads that divide the width 16. .*: 3"),
        (
            "Transformer(ffn_activation=tf.nn.tanh)",
            "ffn_activation once, as one of tf.nn.relu, .*: tf.nn.tanh",
        ),
        # Of an approximation of its own.
        ("Transformer(ffn_activation=onmt.layers.gelu)", "ffn_activation once"),
        ("LuongAttention()", "heads that divide the width 16. Received: none "),
        ("models.Transformer(num_layers=3)", r"Received: none \(model_desc"),
        ("Transformer(None, None, 6, 16, 4)", r"Received: none \(model_desc"),
    ],
)
def test_descriptions_that_are_refused(folder, description, message):
    (folder / "model_description.py").write_text(f"model = {description}")
    with pytest.raises(InputError, match=message):
        read(folder)


def test_heads_of_narrow_models_must_be_said(folder):
    (folder / "model_description.py").unlink()
    with pytest.raises(InputError, match=r"none \(no file.*num_heads=8"):
        read(folder)


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"features_inputter/": "features_inputter/inputters/0/"},
            "Received: no .*features_inputter/embedding$",
        ),
        (
            {"encoder/layers/0/": "encoder/cell/cells/0/"},
            "one source.*: no .*/encoder/layers/0/ffn/layer/inner/kernel$",
        ),
        ({"model/": "transformer/"}, "Received: no model/examples_inp"),
    ],
)
def test_other_architectures_are_refused(changes, message):
    ((old, new),) = changes.items()
    names = random_weights((9, 9), layers=(1, 1))
    shapes = {name.replace(old, new): [2, 2] for name in names}
    with pytest.raises(InputError, match=f"ckpt-20 must have .*{message}"):
        from_opennmt_tf._check_architecture(Path("ckpt-20"), shapes)


def test_damaged_checkpoints_are_refused(folder):
    index = folder / "ckpt-10.index"
    data = folder / "ckpt-10.data-00000-of-00001"
    complete = data.read_bytes()
    for length in (5000, 50_000):
        data.write_bytes(complete[:length])
        with pytest.raises(InputError, match="ckpt-10"):
            read(folder).load_model()
    data.write_bytes(complete)
    index.write_bytes(index.read_bytes()[:100])
    with pytest.raises(InputError, match="ckpt-10 must be a complete file"):
        read(folder)
    index.unlink()
    with pytest.raises(InputError, match="must have a checkpoint, such as"):
        read(folder)


@pytest.mark.parametrize(
    "files, message",
    [
        ({}, "one YAML file .* Received: no YAML file"),
        ({"a.yml": "data: {}", "b.yaml": "data: {}"}, ": a.yml, b.yaml"),
        ({"a.yml": "model_dir: run"}, "one YAML file .* Received: a.yml"),
        ({"a.yml": "data: run"}, "a.yml, data, must have names with values"),
        ({"a.yml": "data: {}\nparams: 3"}, "a.yml, params, must have names"),
        ({"a.yml": "data: ["}, "a.yml must be YAML. Received: "),
    ],
)
def test_settings_that_are_refused(tmp_path, files, message):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        from_opennmt_tf._read_settings(tmp_path)
