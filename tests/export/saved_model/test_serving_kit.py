"""Files for TensorFlow Serving."""

import re
import shutil
import sys

import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's ops
from tensorflow_serving.apis import prediction_log_pb2

from keras_transformer.export.saved_model.serving_kit import (
    WARMUP_FILE,
    write_kit,
)
from keras_transformer.support.errors import InputError


@pytest.fixture(scope="module")
def served(exported, tmp_path_factory):
    """A copy of the served, `NAME/VERSION`, that these tests may change."""
    path = tmp_path_factory.mktemp("served") / "en-de" / "3"
    shutil.copytree(exported, path)
    return path


@pytest.fixture(scope="module")
def files(served):
    return write_kit(served, cores=6)


def test_what_is_written(served, files):
    root = served.parent
    names = [
        "batching.config",
        "monitoring.config",
        "compose.yaml",
        "README.md",
    ]
    assert files == [served / WARMUP_FILE, *(root / name for name in names)]
    for file in files[1:]:
        text = file.read_text()
        assert not re.search(r"\$[a-z{]", text), file
    compose = (root / "compose.yaml").read_text()
    assert "image: tensorflow/serving:2.20.0\n" in compose
    assert 'MODEL_NAME: "en-de"\n' in compose
    assert "--tensorflow_inter_op_parallelism=6\n" in compose
    assert "num_batch_threads { value: 6 }" in files[1].read_text()
    readme = (root / "README.md").read_text()
    assert "/v1/models/en-de:predict" in readme
    assert "signatures\ndetokenize, greedy, serving_default.\n" in readme


def test_warm_up_requests_can_be_replayed(served, files):
    signatures = tf.saved_model.load(served).signatures
    names = set()
    for record in tf.data.TFRecordDataset(str(files[0])).as_numpy_iterator():
        log = prediction_log_pb2.PredictionLog.FromString(record)
        request = log.predict_log.request
        assert request.model_spec.name == "en-de"
        name = request.model_spec.signature_name
        text = tf.make_ndarray(request.inputs["text"])
        assert text.shape in ((1,), (8,))
        outputs = signatures[name](text=tf.constant(text))
        assert all(len(value) == len(text) for value in outputs.values())
        names.add(name)
    # `detokenize` takes pieces.
    assert names == {"serving_default", "greedy"}


def test_a_file_that_exists_is_kept(served, files):
    compose = served.parent / "compose.yaml"
    compose.write_text("mine")
    (served.parent / "batching.config").unlink()
    assert write_kit(served, cores=2) == [served.parent / "batching.config"]
    assert compose.read_text() == "mine"


def test_serving_needs_a_version(tmp_path):
    with pytest.raises(InputError, match=f"number, such as .*: {tmp_path}/x"):
        write_kit(tmp_path / "x", cores=2)


def test_a_name_is_part_of_a_url(tmp_path):
    with pytest.raises(InputError, match="letters, digits.*'en de'"):
        write_kit(tmp_path / "en de" / "1", cores=2)


def test_without_the_package(served, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_serving", None)
    with pytest.raises(InputError, match=r"keras-transformer-nmt\[serving\]"):
        write_kit(served, cores=2)
