"""The SavedModel: what it promises, who can load it, and what is in it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's ops
from tensorflow.core.protobuf import saved_model_pb2

import keras_transformer
from keras_transformer.errors import InputError
from keras_transformer.export import (
    Translation,
    Translator,
    save,
    translate_alone,
)
from keras_transformer.export import saved_model as saved_model_file

TEXTS = [
    "The good house sleeps.",
    "dog",
    "",
    "The red\0cat 🙂 sleeps.",
    "The red dog " * 8_333 + "red.",  # 100,000 characters
]


@pytest.fixture(scope="module")
def loaded(exported):
    return tf.saved_model.load(exported)


@pytest.fixture(scope="module")
def graph(exported):
    """Nodes of the exported graph and of its functions."""
    model = saved_model_pb2.SavedModel.FromString(
        (exported / "saved_model.pb").read_bytes()
    )
    (meta_graph,) = model.meta_graphs
    functions = meta_graph.graph_def.library.function
    nodes = [*meta_graph.graph_def.node]
    return nodes + [node for f in functions for node in f.node_def], functions


def translations(outputs):
    """`Translation`s from the outputs of a signature, as arrays."""
    return [
        Translation([text.decode("utf-8", "replace") for text in row], *rest)
        for row, *rest in zip(
            outputs["translations"].tolist(),
            outputs["scores"].tolist(),
            outputs["truncated"].tolist(),
            strict=True,
        )
    ]


def assert_same(found, expected):
    assert [t.texts for t in found] == [t.texts for t in expected]
    assert [t.truncated for t in found] == [t.truncated for t in expected]
    np.testing.assert_allclose(
        [t.scores for t in found],
        [t.scores for t in expected],
        rtol=1e-4,
        atol=1e-5,
    )


# === The signature ===


def test_signature(loaded):
    assert list(loaded.signatures) == ["serving_default"]
    signature = loaded.signatures["serving_default"]
    (_, inputs) = signature.structured_input_signature
    assert inputs == {"text": tf.TensorSpec([None], tf.string, "text")}
    outputs = {
        name: (spec.dtype, spec.shape.as_list())
        for name, spec in signature.structured_outputs.items()
    }
    assert outputs == {
        "translations": (tf.string, [None, 3]),
        "scores": (tf.float32, [None, 3]),
        "truncated": (tf.bool, [None]),
    }


# === The same translations, whoever loads it ===


def test_loaded_by_tensorflow(loaded, translator):
    translate = loaded.signatures["serving_default"]
    outputs = translate(text=tf.constant(TEXTS))
    outputs = {name: value.numpy() for name, value in outputs.items()}
    assert_same(translations(outputs), translator.translate(TEXTS))
    scores = outputs["scores"]
    assert (np.diff(scores, axis=1) <= 0.0).all()
    assert outputs["truncated"].tolist() == [False] * 4 + [True]


def test_loaded_by_a_session_after_moving(exported, translator, tmp_path):
    """Without eager mode, as servers and other languages load it."""
    moved = tmp_path / "elsewhere" / "7"
    shutil.copytree(exported, moved)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        model = tf.compat.v1.saved_model.load(session, ["serve"], str(moved))
        signature = model.signature_def["serving_default"]
        feed = {signature.inputs["text"].name: TEXTS}
        fetch = {name: t.name for name, t in signature.outputs.items()}
        outputs = session.run(fetch, feed)
        empty = session.run(fetch, {signature.inputs["text"].name: []})
    assert_same(translations(outputs), translator.translate(TEXTS))
    assert empty["translations"].shape == empty["scores"].shape == (0, 3)
    assert empty["truncated"].shape == (0,)


def test_loaded_without_any_code_of_ours(exported, translator):
    program = """
import json, sys
blocked = ("keras_transformer", "sentencepiece")

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in blocked:
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, Absent())
import tensorflow as tf
import tensorflow_text
model = tf.saved_model.load(sys.argv[1])
texts = tf.constant(json.load(sys.stdin))
outputs = model.signatures["serving_default"](text=texts)
assert not set(blocked) & set(sys.modules)
translations = [t.decode() for t in outputs["translations"].numpy()[:, 0]]
print(json.dumps([translations, outputs["scores"].numpy().tolist()]))
"""
    process = subprocess.run(
        [sys.executable, "-I", "-c", program, str(exported)],
        input=json.dumps(TEXTS[:3]),
        capture_output=True,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert process.returncode == 0, process.stderr[-2000:]
    texts, scores = json.loads(process.stdout.splitlines()[-1])
    expected = translator.translate(TEXTS[:3])
    assert texts == [t.texts[0] for t in expected]
    np.testing.assert_allclose(
        scores, [t.scores for t in expected], rtol=1e-4, atol=1e-5
    )


def test_translate_alone(exported, translator):
    assert_same(translate_alone(exported, TEXTS), translator.translate(TEXTS))


def test_the_empty_batch(loaded):
    translate = loaded.signatures["serving_default"]
    outputs = translate(text=tf.constant([], tf.string))
    assert outputs["translations"].shape == outputs["scores"].shape == (0, 3)
    assert outputs["truncated"].shape == (0,)


def test_bytes_that_are_no_utf_8(loaded):
    translate = loaded.signatures["serving_default"]
    outputs = translate(text=tf.constant([b"\xff\xfe", b"dog"]))
    assert outputs["translations"][1, 0] == b"Hund"
    assert np.isfinite(outputs["scores"]).all()


# === What is in it ===


def test_no_path_of_this_machine(exported, tmp_path_factory):
    paths = {
        str(tmp_path_factory.getbasetemp()),
        str(Path(keras_transformer.__file__).parents[1]),
        str(Path.home()),
        sys.prefix,
        os.getcwd(),
    }
    files = [path for path in exported.rglob("*") if path.is_file()]
    assert exported / "saved_model.pb" in files
    for file in files:
        content = file.read_bytes()
        found = [p for p in paths if len(p) > 5 and p.encode() in content]
        assert not found, file


def test_the_weights_are_in_it_once(exported, graph, translator):
    size = 4 * translator.model.count_params()
    model = translator.tokenizer.model
    variables = sum(f.stat().st_size for f in exported.glob("variables/*"))
    assert size < variables < 1.1 * size + len(model)
    # Nor are they constants of the graph, where the tokenizer is.
    nodes, _ = graph
    constants = [n.attr["value"].tensor for n in nodes if n.op == "Const"]
    assert constants
    assert sum(tensor.ByteSize() for tensor in constants) < size / 8
    matrices = [w for w in translator.model.weights if len(w.shape) > 1]
    loaded = tf.train.load_checkpoint(str(exported / "variables/variables"))
    shapes = loaded.get_variable_to_shape_map().values()
    for weight in matrices:
        ours = [w.shape for w in matrices].count(weight.shape)
        assert list(shapes).count(list(weight.shape)) == ours


def test_stock_serving_can_run_it(graph):
    """It is started without XLA and has TensorFlow's and Text's ops only."""
    nodes, functions = graph
    operations = {node.op for node in nodes}
    assert "SentencepieceTokenizeOp" in operations
    assert "MatMul" in operations or "BatchMatMulV2" in operations
    foreign = re.compile("Xla|PyFunc|TPU|Cuda|FastSentencepiece")
    assert not [op for op in operations if foreign.search(op)]
    for function in functions:
        assert not function.attr["_XlaMustCompile"].b
    # A device that the server lacks would be an error.
    assert all("GPU" not in node.device for node in nodes)


# === Writing ===


def listing(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def test_nothing_is_left_beside_the_export(exported):
    assert listing(exported.parent)[0] == "1"
    assert os.listdir(exported.parent) == ["1"]
    assert {"saved_model.pb", "variables"} <= set(os.listdir(exported))


@pytest.mark.parametrize("kind", ["folder", "empty folder", "file"])
def test_what_exists_is_refused_and_left_alone(translator, tmp_path, kind):
    path = tmp_path / "1"
    if kind == "file":
        path.write_text("precious")
    else:
        path.mkdir()
    if kind == "folder":
        (path / "saved_model.pb").write_text("precious")
    before = listing(tmp_path)
    with pytest.raises(InputError, match=f"{path} exists"):
        save(translator, path)
    assert listing(tmp_path) == before
    if kind != "empty folder":
        file = path if kind == "file" else path / "saved_model.pb"
        assert file.read_text() == "precious"


def test_a_model_that_disagrees_is_not_left_behind(
    exported, untrained, translator, tmp_path, monkeypatch
):
    """What is written is the trained model, what is meant another one."""
    monkeypatch.setattr(
        saved_model_file,
        "_write",
        lambda _, path: shutil.copytree(exported, path),
    )
    meant = Translator(
        untrained, translator.tokenizer, translator.search, num_translations=3
    )
    with pytest.raises(RuntimeError, match="translates .* otherwise than"):
        save(meant, tmp_path / "models" / "1", probes=["dog"])
    assert listing(tmp_path) == ["models"]


def test_other_scores_alone_are_a_disagreement(
    translator, tmp_path, monkeypatch
):
    def wrong(_, texts):
        found = translator.translate(texts)
        return [t._replace(scores=[s * 1.01 for s in t.scores]) for t in found]

    monkeypatch.setattr(
        saved_model_file, "_write", lambda _, path: path.mkdir()
    )
    monkeypatch.setattr(saved_model_file, "translate_alone", wrong)
    with pytest.raises(RuntimeError, match="'dog' otherwise than the model"):
        save(translator, tmp_path / "1", probes=["", "dog"])
    assert listing(tmp_path) == []


def test_a_model_that_does_not_load_is_not_left_behind(
    translator, tmp_path, monkeypatch
):
    def write(_, path):
        path.mkdir()
        (path / "saved_model.pb").write_bytes(b"no model")

    monkeypatch.setattr(saved_model_file, "_write", write)
    with pytest.raises(RuntimeError, match="does not load in a fresh process"):
        save(translator, tmp_path / "1")
    assert listing(tmp_path) == []


def test_an_interrupted_export_is_not_left_behind(
    translator, tmp_path, monkeypatch
):
    def write(_, path):
        path.mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(saved_model_file, "_write", write)
    with pytest.raises(KeyboardInterrupt):
        save(translator, tmp_path / "1")
    assert listing(tmp_path) == []
