"""What TensorFlow Serving needs beside a model: warm-up requests, settings.

The model is `NAME/VERSION`, such as `models/en-de/1`. Warm-up requests are
part of the model; everything else is written to `NAME`.
"""

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

import tensorflow as tf

from keras_transformer.export.client import import_serving
from keras_transformer.export.operations import read_meta_graph
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write

IMAGE = "tensorflow/serving:2.20.0"
WARMUP_FILE = "assets.extra/tf_serving_warmup_requests"

# Texts of 1 to about 100 tokens.
_WORDS = "I am a student and I read a book in the old house . "
_WARMUP_TEXTS = ("Yes.", _WORDS, _WORDS * 3, _WORDS * 7)
_WARMUP_BATCHES = (1, 8)

_BATCHING = """\
# Requests that arrive within 2 ms are decoded together, at most 32 texts. A
# request of more is refused: splitting it (enable_large_batch_splitting) fails
# where an output is as wide as the longest text. Smaller batches suit texts of
# mixed lengths better, larger ones a GPU.
max_batch_size { value: 32 }
batch_timeout_micros { value: 2000 }
max_enqueued_batches { value: 1000 }
num_batch_threads { value: $cores }
"""

_COMPOSE = """\
services:
  serving:
    image: $image
    ports:
      - "8500:8500"  # gRPC
      - "8501:8501"  # REST
    volumes:
      - .:/models/$name:ro
    environment:
      MODEL_NAME: "$name"
      # Faster products on processors without AVX-512, where it is off.
      TF_ENABLE_ONEDNN_OPTS: "1"
    command:
      # Batches are decoded side by side, each by one thread.
      - --tensorflow_intra_op_parallelism=1
      - --tensorflow_inter_op_parallelism=$cores
      - --enable_batching=true
      - --batching_parameters_file=/models/$name/batching.config
      - --monitoring_config_file=/models/$name/monitoring.config
"""

_MONITORING = """\
prometheus_config { enable: true path: "/monitoring/prometheus/metrics" }
"""

_README = """\
# $name, served by TensorFlow Serving

```
docker compose up
```

The server answers when it has loaded the model and replayed its warm-up
requests, after some seconds.

REST:

```
curl -d '{"instances": ["I am a student."]}' \\
    http://localhost:8501/v1/models/$name:predict
curl http://localhost:8501/v1/models/$name/metadata
curl http://localhost:8501/monitoring/prometheus/metrics
```

gRPC, with `pip install tensorflow-serving-api`:

```python
import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

request = predict_pb2.PredictRequest()
request.model_spec.name = "$name"
request.inputs["text"].CopyFrom(tf.make_tensor_proto(["I am a student."]))
channel = grpc.insecure_channel("localhost:8500")
service = prediction_service_pb2_grpc.PredictionServiceStub(channel)
outputs = service.Predict(request, timeout=30).outputs
print(tf.make_ndarray(outputs["$output"]))
```

Another signature is chosen by `"signature_name"` beside `"instances"`.
Instances of several inputs are objects, such as
`{"text": "Yes.", "translation": "Ja."}`.
A request has at most 32 texts (`max_batch_size`). The model has the signatures
$signatures.

`keras_transformer.export.client.Client("$name")` does the same with batches,
retries and documents.

A new version goes into a folder with a higher number: the server loads it and
unloads the old one. The files beside it are kept: change the number of cores,
$cores, in `batching.config` (`num_batch_threads`) and in `compose.yaml`
(`--tensorflow_inter_op_parallelism`).
Signatures that take scalars, `translate_with_options` and `sample`, cannot be
batched: serve them without `--enable_batching`.
"""


def check_kit(path: str | Path) -> None:
    """Checks, before a model is written, that a kit can be.

    Args:
        path: The model, `NAME/VERSION`.

    Raises:
        InputError: If the package tensorflow-serving-api is not installed, the
            version is not a number, or the name does not fit into a URL.
    """
    name = Path(path).resolve().parent.name
    if not re.fullmatch(r"[\w.-]+", name, re.ASCII):
        raise InputError(
            "The name of a model, which is part of its URL, must consist of "
            f"letters, digits, '.', '_' and '-'. Received: {name!r}"
        )
    if not Path(path).name.isdecimal():
        raise InputError(
            "TensorFlow Serving loads models from folders that are named by a "
            f"version number, such as models/en-de/1. Received: {path}"
        )
    import_serving()


def write_kit(path: str | Path, cores: int) -> list[Path]:
    """Writes warm-up requests, settings and instructions for a saved model.

    Args:
        path: The model, `NAME/VERSION`.
        cores: Cores of the server.

    Returns:
        The files that were written. A file that exists is kept.

    Raises:
        InputError: As `check_kit`.
    """
    check_kit(path)
    path = Path(path)
    name, written = path.resolve().parent.name, []
    signatures = {
        key: signature
        for key, signature in read_meta_graph(path).signature_def.items()
        if not key.startswith("__")  # TensorFlow's own
    }
    warmup = path / WARMUP_FILE
    if not warmup.exists():
        warmup.parent.mkdir(exist_ok=True)
        with atomic_write(warmup) as partial:
            _write_warmup(partial, name, _signatures_of_texts(signatures))
        written.append(warmup)
    for file, text in (
        ("batching.config", _BATCHING),
        ("monitoring.config", _MONITORING),
        ("compose.yaml", _COMPOSE),
        ("README.md", _README),
    ):
        file = path.parent / file
        if not file.exists():
            values = dict(name=name, image=IMAGE, cores=cores)
            values["signatures"] = ", ".join(sorted(signatures))
            outputs = signatures["serving_default"].outputs
            values["output"] = "trees" if "trees" in outputs else "translations"
            with atomic_write(file) as partial:
                partial.write_text(Template(text).substitute(values), "utf-8")
            written.append(file)
    return written


def _write_warmup(file: Path, name: str, signatures: list[str]) -> None:
    """Writes a TFRecord file of requests to a model's signatures."""
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


def _signatures_of_texts(signatures: Mapping[str, Any]) -> list[str]:
    """Returns the names of signatures whose only input is `text`."""
    return sorted(
        name
        for name, signature in signatures.items()
        if list(signature.inputs) == ["text"]
    )
