"""Warm-up requests and settings, which TensorFlow Serving needs for a model.

The model is `NAME/VERSION`, such as `models/en-de/1`. Warm-up requests are
part of the model; the files of `templates` are written to `NAME`.
"""

import itertools
import re
from pathlib import Path

import tensorflow as tf

from keras_transformer.export.saved_model import serving_operations
from keras_transformer.export.saved_model.saved_model_options import check_kit
from keras_transformer.export.writing import fill_template
from keras_transformer.support.files import atomic_write

IMAGE = "tensorflow/serving:2.20.0"
WARMUP_FILE = "assets.extra/tf_serving_warmup_requests"

# Texts of 1 to about 100 tokens.
_WORDS = "I am a student and I read a book in the old house . "
_WARMUP_TEXTS = ("Yes.", _WORDS, _WORDS * 3, _WORDS * 7)
_WARMUP_BATCHES = (1, 8)
_FILES = (
    "batching.config",
    "monitoring.config",
    "compose.yaml",
    "Dockerfile",
    "kubernetes.yaml",
    "README.md",
)


def write_kit(path: str | Path, cores: int) -> list[Path]:
    """Writes warm-up requests, settings and instructions for a saved model.

    Args:
        path: The model, `NAME/VERSION`.
        cores: Cores of the server.

    Returns:
        The files that were written. A file that exists is kept.

    Raises:
        InputError: If the package tensorflow-serving-api is not installed, the
            version is not a number, or the name does not fit into a URL.
    """
    check_kit(path)
    path = Path(path)
    name = path.resolve().parent.name
    # TensorFlow adds one of its own, whose name begins with two underscores.
    graph = serving_operations.read_meta_graph(path)
    signatures = {
        key: signature
        for key, signature in graph.signature_def.items()
        if not key.startswith("__")
    }
    values = {
        "name": name,
        "version": path.name,
        "service": service_name(name),
        "image": IMAGE,
        "cores": cores,
        "signatures": ", ".join(sorted(signatures)),
    }
    inputs = {key: list(x.inputs) for key, x in signatures.items()}
    of_texts = sorted(key for key in inputs if inputs[key] == ["text"])
    (path / WARMUP_FILE).parent.mkdir(exist_ok=True)
    written = []
    for file in (path / WARMUP_FILE, *map(path.parent.joinpath, _FILES)):
        if file.exists():
            continue
        with atomic_write(file) as partial:
            if file.name in _FILES:
                partial.write_text(fill_template(file.name, **values), "utf-8")
            else:
                _write_warmup(partial, name, of_texts)
        written.append(file)
    return written


def service_name(name: str) -> str:
    """Returns the name of a model on Kubernetes, which allows fewer."""
    letters = re.sub("[^a-z0-9]+", "-", name.lower())
    return f"model-{letters}"[:63].replace("--", "-").strip("-")


def _write_warmup(file: Path, name: str, signatures: list[str]) -> None:
    """Writes a TFRecord file of requests to signatures of texts."""
    from tensorflow_serving.apis import prediction_log_pb2

    with tf.io.TFRecordWriter(str(file)) as writer:
        for signature, text, batch in itertools.product(
            signatures, _WARMUP_TEXTS, _WARMUP_BATCHES
        ):
            log = prediction_log_pb2.PredictionLog()
            request = log.predict_log.request
            request.model_spec.name = name
            request.model_spec.signature_name = signature
            tensor = tf.make_tensor_proto([text] * batch)
            request.inputs["text"].CopyFrom(tensor)
            writer.write(log.SerializeToString())
