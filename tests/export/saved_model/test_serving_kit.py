"""Files for TensorFlow Serving."""

import json
import re
import shutil
import sys

import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's ops
import yaml
from tensorflow_serving.apis import prediction_log_pb2

from keras_transformer.export.saved_model.serving_kit import (
    WARMUP_FILE,
    service_name,
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
        "Dockerfile",
        "kubernetes.yaml",
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


def test_the_image_starts_as_compose_does(served, files):
    compose = yaml.safe_load((served.parent / "compose.yaml").read_text())
    service = compose["services"]["serving"]
    text = (served.parent / "Dockerfile").read_text().replace("\\\n", "")
    lines = [line for line in text.splitlines() if line[:1] not in ("#", "")]
    steps = dict(line.split(maxsplit=1) for line in lines)
    assert list(steps) == ["FROM", "ENV", "COPY", "CMD"]
    assert steps["FROM"] == service["image"]
    assert json.loads(steps["CMD"]) == service["command"]
    folder = service["volumes"][0].split(":")[1]
    assert steps["COPY"].split() == [".", f'"{folder}"']
    variables = dict(x.split("=") for x in steps["ENV"].split())
    assert variables["MODEL_NAME"] == '"en-de"'
    assert set(variables) == set(service["environment"])


def test_the_deployment(served, files):
    text = (served.parent / "kubernetes.yaml").read_text()
    deployment, service = yaml.safe_load_all(text)
    assert (deployment["apiVersion"], deployment["kind"]) == (
        "apps/v1",
        "Deployment",
    )
    assert (service["apiVersion"], service["kind"]) == ("v1", "Service")
    pod = deployment["spec"]["template"]
    labels = {"app": "model-en-de"}
    assert pod["metadata"]["labels"] == labels
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    assert service["spec"]["selector"] == labels
    (container,) = pod["spec"]["containers"]
    assert container["image"] == "model-en-de:3"
    assert "--tag model-en-de:3 ." in (served.parent / "README.md").read_text()
    assert container["resources"]["requests"]["cpu"] == "6"
    ports = {x["name"]: x["containerPort"] for x in container["ports"]}
    assert ports == {"grpc": 8500, "rest": 8501}
    for port in service["spec"]["ports"]:
        assert ports[port["targetPort"]] == port["port"]
    paths = {
        name: probe["httpGet"]["path"]
        for name, probe in container.items()
        if name.endswith("Probe") and probe["httpGet"]["port"] in ports
    }
    # The metadata are answered when the model is loaded.
    assert paths == {
        "startupProbe": "/v1/models/en-de/metadata",
        "readinessProbe": "/v1/models/en-de/metadata",
        "livenessProbe": "/v1/models/en-de",
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("en-de", "model-en-de"),
        ("1.En_DE", "model-1-en-de"),
        ("_", "model"),
        ("x" * 99, "model-" + "x" * 57),
        ("x" * 56 + "-y", "model-" + "x" * 56),
    ],
)
def test_names_on_kubernetes(name, expected):
    assert service_name(name) == expected


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
