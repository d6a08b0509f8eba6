"""The SavedModel: what it returns, who can load it, and what it contains."""

import dataclasses
import hashlib
import json
import os
import re
import shutil
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's ops
from translation_fixtures import EXPORTED

import keras_transformer as kt
from keras_transformer.export import save, saved_model
from keras_transformer.export.operations import read_meta_graph
from keras_transformer.inference.translator import Translation
from keras_transformer.support.errors import InputError

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
    meta_graph = read_meta_graph(exported)
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
            outputs["source_truncated"].tolist(),
            outputs["at_length_limit"].tolist(),
            strict=True,
        )
    ]


def assert_same(found, expected):
    assert [t.texts for t in found] == [t.texts for t in expected]
    assert [t[2:] for t in found] == [t[2:] for t in expected]
    np.testing.assert_allclose(
        [t.scores for t in found],
        [t.scores for t in expected],
        rtol=1e-4,
        atol=1e-5,
    )


# === The signature ===


def test_signature(loaded):
    assert set(loaded.signatures) == set(EXPORTED)
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
        "source_truncated": (tf.bool, [None]),
        "at_length_limit": (tf.bool, [None]),
    }


@pytest.mark.parametrize("text", ["dog", [["dog"], ["cat"]]])
def test_input_of_another_rank_is_an_error(loaded, text):
    # Python's own check does not exist in a server: test the graph.
    signature = loaded.signatures["serving_default"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="not compatible"):
        signature(text=tf.constant(text))
    (function,) = loaded.functions["serving_default"].concrete_functions
    with pytest.raises(tf.errors.InvalidArgumentError, match="not compatible"):
        function(tf.constant(text))


def test_empty_batch(loaded):
    translate = loaded.signatures["serving_default"]
    outputs = translate(text=tf.constant([], tf.string))
    assert outputs["translations"].shape == outputs["scores"].shape == (0, 3)
    assert outputs["source_truncated"].shape == (0,)


def test_bytes_that_are_not_utf_8(loaded):
    translate = loaded.signatures["serving_default"]
    outputs = translate(text=tf.constant([b"\xff\xfe", b"dog"]))
    assert outputs["translations"][1, 0] == b"Hund"
    assert np.isfinite(outputs["scores"]).all()


def test_metadata(exported, translator):
    found = json.loads((exported / saved_model.METADATA_FILE).read_text())
    assert found["keras_transformer"] == kt.__version__
    assert found["tensorflow"] == tf.__version__
    assert found["oldest_tensorflow_serving"] == "2.12"
    assert found["dtype"] == "float32"
    model = translator.tokenizer.model
    assert found["tokenizer_sha256"] == hashlib.sha256(model).hexdigest()
    search = dataclasses.asdict(translator.search)
    assert (found["search"], found["num_translations"]) == (search, 3)
    assert search["extra_length"] == 12
    assert found["signatures"] == sorted(EXPORTED)
    assert found["runs"] == []  # the translator was not opened from a run


def test_metadata_of_runs_and_of_the_user(translator, tmp_path, monkeypatch):
    class Run:
        def metadata(self, checkpoint):
            return {"step": 7, "checkpoint": checkpoint.name}

    fake_export(monkeypatch, translator.translate(["dog"]))
    checkpoints = [(Run(), Path("step-7"))]
    monkeypatch.setattr(translator, "checkpoints", checkpoints)
    path = save(translator, tmp_path / "1", ["dog"], metadata={"by": "me"})
    found = json.loads((path / saved_model.METADATA_FILE).read_text())
    assert found["runs"] == [{"step": 7, "checkpoint": "step-7"}]
    assert found["by"] == "me"
    with pytest.raises(InputError, match="built-in one. Received: dtype"):
        save(translator, tmp_path / "2", metadata={"dtype": "mine"})


@pytest.mark.slow
def test_a_model_in_bfloat16(model, tokenizer, pairs, tmp_path):
    converted = kt.Transformer(model.config, dtype="bfloat16")
    for ours, theirs in zip(converted.weights, model.weights, strict=True):
        ours.assign(tf.cast(theirs.value, "bfloat16"))
    translator = kt.Translator(converted, tokenizer)
    # In 16 bits the scores of a batch differ from those of its texts alone,
    # which `save` compares.
    path = save(translator, tmp_path / "1", pairs, include=["serving_default"])
    assert translator(list(pairs)) == list(pairs.values())
    size = sum(f.stat().st_size for f in path.glob("variables/*"))
    assert size < 0.6 * 4 * model.count_params() + len(tokenizer.model)


def translate_here(path, texts):
    """Translates without a new process, which takes seconds."""
    translate = tf.saved_model.load(path).signatures["serving_default"]
    outputs = translate(text=tf.constant(texts))
    return translations({k: v.numpy() for k, v in outputs.items()})


def test_a_model_with_a_window(model, tokenizer, pairs, tmp_path, monkeypatch):
    config = dataclasses.replace(model.config, attention_window=3)
    restricted = kt.Transformer(config)
    restricted.set_weights(model.get_weights())
    translator = kt.Translator(restricted, tokenizer)
    texts = list(pairs)[:4]
    expected = translator.translate(texts)
    assert [t.texts[0] for t in expected] != [pairs[text] for text in texts]

    monkeypatch.setattr(saved_model, "translate_in_subprocess", translate_here)
    save(translator, tmp_path / "1", texts, include=["serving_default"])


# === The same translations, whoever loads it ===


def test_loaded_by_tensorflow(loaded, translator):
    translate = loaded.signatures["serving_default"]
    outputs = translate(text=tf.constant(TEXTS))
    outputs = {name: value.numpy() for name, value in outputs.items()}
    assert_same(translations(outputs), translator.translate(TEXTS))
    scores = outputs["scores"]
    assert (np.diff(scores, axis=1) <= 0.0).all()
    assert outputs["source_truncated"].tolist() == [False] * 4 + [True]


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
    model = translator.tokenizer.model
    variables = sum(f.stat().st_size for f in exported.glob("variables/*"))
    assert size < variables < 1.1 * size + len(model)
    # The constants of the graph are smaller than any matrix of weights.
    nodes, _ = graph
    constants = [n.attr["value"].tensor for n in nodes if n.op == "Const"]
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


# === Writing ===


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
    monkeypatch.setattr(saved_model, "oldest_serving", lambda path: "2.12")
    monkeypatch.setattr(
        saved_model, "translate_in_subprocess", lambda _, texts: saved
    )


def test_same_translations_are_accepted(translator, tmp_path, monkeypatch):
    probes = ["", "dog"]
    fake_export(monkeypatch, translator.translate(probes))
    assert save(translator, tmp_path / "a" / "1", probes) == tmp_path / "a/1"
    metadata = f"a/1/{saved_model.METADATA_FILE}"
    assert listing(tmp_path) == ["a", "a/1", "a/1/assets.extra", metadata]


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
    monkeypatch.setattr(saved_model, "oldest_serving", refuse)
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


def test_a_quantized_model(small_translator, tmp_path, monkeypatch):
    model = small_translator.model
    model.quantize("int8")
    translator = kt.Translator(model, small_translator.tokenizer)
    assert {w.dtype for w in model.weights} == {"float32", "int8"}
    monkeypatch.setattr(saved_model, "translate_in_subprocess", translate_here)
    path = save(translator, tmp_path / "1", ["dog"], ["serving_default"])
    sizes = tf.train.load_checkpoint(str(path / "variables/variables"))
    types = sizes.get_variable_to_dtype_map().values()
    count = sum(weight.dtype == "int8" for weight in model.weights)
    assert list(types).count(tf.int8) == count > 0


def test_a_quantized_model_is_saved_as_weights(small_translator, tmp_path):
    """What docs/guide.md says."""
    model = small_translator.model
    model.quantize("int8")
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


def test_long_names(small_translator, tmp_path, monkeypatch):
    texts = ["dog"]
    fake_export(monkeypatch, small_translator.translate(texts))
    path = save(small_translator, tmp_path / ("x" * 255), texts)
    assert listing(tmp_path) == listing(path.parent)
    assert path.is_dir() and path.stat().st_mode & 0o055 == 0o055
    monkeypatch.setattr(small_translator, "translate", None)  # not reached
    with pytest.raises(OSError, match="File name too long"):
        save(small_translator, tmp_path / ("x" * 256), texts)
    assert os.listdir(tmp_path) == [path.name]


def test_scores_that_are_not_finite_are_refused(
    small_translator, tmp_path, monkeypatch
):
    for weight in small_translator.model.weights:
        weight.assign(tf.fill(weight.shape, 1e30))  # overflows
    fake_export(monkeypatch, small_translator.translate(saved_model.PROBES))
    with pytest.raises(InputError, match="must be finite. Received: score="):
        save(small_translator, tmp_path / "1")
    assert listing(tmp_path) == []
