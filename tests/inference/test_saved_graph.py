"""A SavedModel, loaded signature by signature, computes what it always does."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's ops
from tensorflow.core.protobuf import saved_model_pb2

from keras_transformer.inference import saved_graph
from keras_transformer.inference.saved_graph import SavedGraph
from keras_transformer.inference.saved_model import SavedModelTranslator
from keras_transformer.support.errors import InputError

TEXTS = ["The good house sleeps.", "dog", "", "The red\0cat 🙂 sleeps.", "dog"]


def test_outputs_are_those_of_the_whole_model(exported):
    whole = tf.saved_model.load(exported)
    texts = np.array([text.encode() for text in TEXTS], object)
    signatures = SavedGraph(exported).signatures()
    assert signatures.keys() == whole.signatures.keys()
    for name in ("serving_default", "greedy"):
        expected = whole.signatures[name](text=tf.constant(texts))
        outputs = signatures[name].call({"text": texts})
        assert outputs.keys() == expected.keys()
        assert signatures[name].outputs().keys() == expected.keys()
        for key, values in expected.items():
            assert outputs[key].dtype == values.numpy().dtype
            assert outputs[key].tolist() == values.numpy().tolist()


def test_a_signature_is_loaded_when_it_is_called(exported):
    graph = SavedGraph(exported)
    signature = graph.signatures()["detokenize"]
    operations = graph._session.graph.get_operations
    assert not [x for x in operations() if x.name.startswith("detokenize/")]
    empty = np.zeros([0], object)
    assert signature.call({"pieces": empty})["text"].tolist() == []
    names = [x.name for x in operations()]
    assert "detokenize/detokenize_pieces" in names
    assert not [x for x in names if x.startswith("greedy/")]
    signature.call({"pieces": empty})
    assert len(operations()) == len(names)
    with pytest.raises(InputError, match="Cannot feed value of shape"):
        signature.call({"pieces": np.zeros([1, 2], object)})


class Words(tf.Module):
    """A vocabulary in a file, and a variable."""

    def __init__(self, path):
        initializer = tf.lookup.TextFileInitializer(
            path,
            *(tf.string, tf.lookup.TextFileIndex.WHOLE_LINE),
            *(tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER),
        )
        self.table = tf.lookup.StaticHashTable(initializer, -1)
        self.offset = tf.Variable(10, dtype=tf.int64)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def __call__(self, text):
        return {"ids": self.table.lookup(text) + self.offset}


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """A SavedModel with a file, and signatures of many names."""
    folder = tmp_path_factory.mktemp("words")
    path = folder / "words.txt"
    path.write_text("the\ndog\n")
    module = Words(str(path))
    names = ("serving_default", "restore", "start", "Restore")
    signatures = dict.fromkeys(names, module.__call__)
    tf.saved_model.save(module, folder / "1", signatures)
    path.unlink()  # The model has its own.
    return folder / "1"


def test_tables_from_files_and_names_of_signatures(words):
    graph = SavedGraph(words)
    assert graph._session._config == saved_graph._session_config()
    signatures = graph.signatures()
    assert {"Restore", "restore", "serving_default", "start"} == {*signatures}
    for signature in signatures.values():
        outputs = signature.call({"text": np.array([b"dog", b"x"], object)})
        assert outputs["ids"].tolist() == [11, 9]


def test_a_model_without_a_saver(words, tmp_path):
    folder = shutil.copytree(words, tmp_path / "1")
    model = saved_model_pb2.SavedModel.FromString(
        (folder / "saved_model.pb").read_bytes()
    )
    model.meta_graphs[0].ClearField("saver_def")
    (folder / "saved_model.pb").write_bytes(model.SerializeToString())
    message = "must be a SavedModel. Received: a graph that restores no var"
    with pytest.raises(InputError, match=message):
        SavedModelTranslator.open(folder)


def test_the_session_has_the_settings_of_tensorflow(monkeypatch):
    gpus = []
    config = tf.config
    monkeypatch.setattr(config, "get_visible_devices", lambda device_type: gpus)
    threads = config.threading
    monkeypatch.setattr(threads, "get_inter_op_parallelism_threads", lambda: 3)
    monkeypatch.setattr(threads, "get_intra_op_parallelism_threads", lambda: 2)
    settings = saved_graph._session_config()
    assert settings.inter_op_parallelism_threads == 3
    assert settings.intra_op_parallelism_threads == 2
    assert settings.gpu_options.allow_growth
    assert settings.device_count == {"GPU": 0}
    for number in (1, 3):
        name = f"/physical_device:GPU:{number}"
        gpus.append(config.PhysicalDevice(name, "GPU"))
    settings = saved_graph._session_config()
    assert settings.device_count == {}
    assert settings.gpu_options.visible_device_list == "1,3"


IMPORTS = """
import json, sys

from keras_transformer.cli import main

assert main() == 0
packages = {name.split(".")[0] for name in sys.modules}
print(json.dumps(sorted(packages)))
"""


def test_a_command_imports_no_package_in_vain(exported):
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS, "translate", exported],
        input="dog\n",
        capture_output=True,
        text=True,
        check=True,
    )
    packages = json.loads(done.stdout.splitlines()[-1])
    assert "tensorflow" in packages
    unneeded = {"keras", "tensorflow_text", "jax", "matplotlib", "scipy"}
    assert not unneeded.intersection(packages)
