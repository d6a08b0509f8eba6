"""The SavedModel: what it returns, who can load it, and what it contains."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's ops
from helpers import assert_same_translations as assert_same
from random_models import random_translator
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2

import keras_transformer as kt
from keras_transformer.export import save
from keras_transformer.inference.records import Translation

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
    content = (exported / "saved_model.pb").read_bytes()
    saved = saved_model_pb2.SavedModel.FromString(content)
    graph = saved.meta_graphs[0].graph_def
    functions = graph.library.function
    nodes = [node for f in functions for node in f.node_def]
    return [*graph.node, *nodes], functions


def translations(outputs):
    """`Translation`s from the outputs of a signature, as arrays."""
    return [
        Translation([text.decode("utf-8", "replace") for text in row], *rest)
        for row, *rest in zip(
            outputs["translations"].tolist(),
            outputs["scores"].tolist(),
            outputs["source_truncated"].tolist(),
            outputs["at_length_limit"].tolist(),
            strict=True,
        )
    ]


def test_metadata(exported):
    file = exported / "assets.extra" / "keras_transformer.json"
    found = json.loads(file.read_text())
    assert found["tensorflow"] == tf.__version__
    assert (found["dtype"], found["languages"]) == ("float32", [])
    names = ["score", "serving_default", "translate_prefix"]
    assert found["signatures"] == names


def test_a_different_model_is_not_written(
    exported, model, tokenizer, tmp_path, monkeypatch
):
    def save_exported(module, folder, signatures):
        ignored = shutil.ignore_patterns("assets.extra")
        shutil.copytree(exported, folder, ignore=ignored, dirs_exist_ok=True)

    monkeypatch.setattr(tf.saved_model, "save", save_exported)
    translator = kt.Translator(kt.Transformer(model.config), tokenizer)
    with pytest.raises(RuntimeError, match="I am"):
        save(translator, tmp_path / "1", [])
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_model_in_bfloat16(model, tokenizer, pairs, tmp_path):
    converted = kt.Transformer(model.config, dtype="bfloat16")
    for ours, theirs in zip(converted.weights, model.weights, strict=True):
        ours.assign(tf.cast(theirs.value, "bfloat16"))
    translator = kt.Translator(converted, tokenizer)
    path = save(translator, tmp_path / "1", [])
    assert translator(list(pairs)) == list(pairs.values())
    size = sum(f.stat().st_size for f in path.glob("variables/*"))
    assert size < 0.6 * 4 * model.count_params() + len(tokenizer.target.model)


@pytest.mark.slow
def test_a_quantized_model(tokenizer, tmp_path):
    model = random_translator(tokenizer, num_layers=1).model
    model.quantize("int8")
    path = save(kt.Translator(model, tokenizer), tmp_path / "1", [])
    weights = tf.train.load_checkpoint(str(path / "variables/variables"))
    types = weights.get_variable_to_dtype_map().values()
    count = sum(weight.dtype == "int8" for weight in model.weights)
    assert list(types).count(tf.int8) == count > 0


def test_warm_up_requests(exported, loaded):
    file = exported / "assets.extra" / "tf_serving_warmup_requests"
    sizes = []
    for record in tf.data.TFRecordDataset(str(file)).as_numpy_iterator():
        log = prediction_log_pb2.PredictionLog.FromString(record)
        request = log.predict_log.request
        assert request.model_spec.name == "en-de"
        assert request.model_spec.signature_name == "serving_default"
        text = tf.make_ndarray(request.inputs["text"])
        outputs = loaded.signatures["serving_default"](text=tf.constant(text))
        assert all(len(value) == len(text) for value in outputs.values())
        sizes.append(text.shape)
    assert sizes == [(1,), (8,)] * 4


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
    assert empty["source_truncated"].shape == (0,)


# === What it contains ===


def test_contains_no_path_of_this_machine(exported, tmp_path_factory):
    paths = {
        str(tmp_path_factory.getbasetemp()),
        str(Path(kt.__file__).parents[1]),
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


def test_contains_the_weights_once(exported, graph, translator):
    size = 4 * translator.model.count_params()
    model = translator.tokenizer.target.model
    variables = sum(f.stat().st_size for f in exported.glob("variables/*"))
    assert size < variables < 1.1 * size + len(model)
    # The constants of the graph are smaller than any matrix of weights, but for
    # the characters that sources are normalized with.
    nodes, _ = graph
    constants = [n.attr["value"].tensor for n in nodes if n.op == "Const"]
    constants = [x for x in constants if x.dtype != tf.string.as_datatype_enum]
    assert constants
    matrices = [w for w in translator.model.weights if len(w.shape) > 1]
    smallest = 4 * min(np.prod(w.shape) for w in matrices)
    assert max(tensor.ByteSize() for tensor in constants) < smallest
    loaded = tf.train.load_checkpoint(str(exported / "variables/variables"))
    shapes = loaded.get_variable_to_shape_map().values()
    for weight in matrices:
        ours = [w.shape for w in matrices].count(weight.shape)
        assert list(shapes).count(list(weight.shape)) == ours


def test_contains_only_ops_of_stock_serving(graph):
    """It starts without XLA, and has the ops of TensorFlow and Text only."""
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
