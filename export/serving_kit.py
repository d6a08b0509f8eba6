"""What TensorFlow Serving needs beside a model: warm-up requests, settings.

The model is `NAME/VERSION`, such as `models/en-de/1`. Warm-up requests are
part of the model; everything else is written to `NAME`.
"""

from pathlib import Path
from string import Template

import tensorflow as tf

from keras_transformer.errors import InputError
from keras_transformer.files import atomic_write

IMAGE = "tensorflow/serving:2.20.0"
WARMUP_FILE = "assets.extra/tf_serving_warmup_requests"

# Texts of 1 to about 100 tokens.
_WORDS = "I am a student and I read a book in the old house . "
_WARMUP_TEXTS = ("Yes.", _WORDS, _WORDS * 3, _WORDS * 7)
_WARMUP_BATCHES = (1, 8)

_BATCHING = """\
# Requests that arrive within 2 ms are decoded together, at most 32 texts. A
# batch takes as long as its longest translation: smaller batches suit texts of
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
      MODEL_NAME: $name
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

REST:

```
curl -d '{"instances": ["I am a student."]}' \\
    http://localhost:8501/v1/models/$name:predict
curl -d '{"signature_name": "greedy", "instances": ["I am a student."]}' \\
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
print(tf.make_ndarray(outputs["translations"]))
```

A new version goes into a folder with a higher number: the server loads it and
unloads the old one. `batching.config` and `compose.yaml` assume $cores cores.
`translate_with_options` takes scalars, which cannot be batched: serve it
without `--enable_batching`.
"""


def write_kit(path: str | Path, cores: int) -> list[Path]:
    """Writes warm-up requests, settings and instructions for a saved model.

    Args:
        path: The model, `NAME/VERSION`.
        cores: Cores of the server.

    Returns:
        The files that were written. A file that exists is kept.

    Raises:
        InputError: If the package tensorflow-serving-api is not installed, or
            the version is not a number.
    """
    path = Path(path)
    if not path.name.isdecimal():
        raise InputError(
            "TensorFlow Serving loads models from folders that are named by a "
            f"version number, such as models/en-de/1. Received: {path}"
        )
    values = dict(name=path.resolve().parent.name, image=IMAGE, cores=cores)
    contents = {
        path / WARMUP_FILE: _warmup_records(path),
        **{
            path.parent / name: Template(text).substitute(values).encode()
            for name, text in (
                ("batching.config", _BATCHING),
                ("monitoring.config", _MONITORING),
                ("compose.yaml", _COMPOSE),
                ("README.md", _README),
            )
        },
    }
    written = [file for file in contents if not file.exists()]
    for file in written:
        file.parent.mkdir(exist_ok=True)
        with atomic_write(file) as partial:
            partial.write_bytes(contents[file])
    return written


def _warmup_records(path: Path) -> bytes:
    """Returns a TFRecord file of requests to every signature of texts alone."""
    try:
        from tensorflow_serving.apis import prediction_log_pb2
    except ImportError as error:
        raise InputError(
            "tensorflow-serving-api is not installed. Run "
            'pip install "keras-transformer-nmt[serving]"'
        ) from error
    records = []
    for name in _signatures_of_texts(path):
        for text in _WARMUP_TEXTS:
            for batch in _WARMUP_BATCHES:
                log = prediction_log_pb2.PredictionLog()
                request = log.predict_log.request
                request.model_spec.name = path.resolve().parent.name
                request.model_spec.signature_name = name
                request.inputs["text"].CopyFrom(
                    tf.make_tensor_proto([text] * batch)
                )
                records.append(log.SerializeToString())
    file = path.with_name(f".{path.name}.warmup.partial")
    try:
        with tf.io.TFRecordWriter(str(file)) as writer:
            for record in records:
                writer.write(record)
        return file.read_bytes()
    finally:
        file.unlink(missing_ok=True)


def _signatures_of_texts(path: Path) -> list[str]:
    """Returns the names of signatures whose only input is `text`."""
    from tensorflow.core.protobuf import saved_model_pb2

    model = saved_model_pb2.SavedModel.FromString(
        (path / "saved_model.pb").read_bytes()
    )
    signatures = model.meta_graphs[0].signature_def
    return sorted(
        name
        for name, signature in signatures.items()
        if list(signature.inputs) == ["text"]
    )
