"""Connects to TensorFlow Serving, by gRPC."""

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_transformer.inference.served import ServedBackend
from keras_transformer.inference.translator import Translator
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import explain_missing_packages

with explain_missing_packages():
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import get_model_metadata_pb2
    from tensorflow_serving.apis import predict_pb2 as messages
    from tensorflow_serving.apis import prediction_service_pb2_grpc as services

_ADDRESS = r"(grpcs?)://([^/]+)/([^/]+)(?:/([0-9]+))?"
_SECONDS = 60.0  # timeout of a request, retries included
_RETRIES = {
    "name": [{"service": "tensorflow.serving.PredictionService"}],
    "retryPolicy": {
        "maxAttempts": 5,
        "initialBackoff": "0.2s",
        "backoffMultiplier": 3,
        "maxBackoff": "5s",
        "retryableStatusCodes": ["UNAVAILABLE"],
    },
}
_OPTIONS = (  # of a channel
    # The default is 4 MiB.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # Until it reconnects, every retry fails at once. The default is 2 minutes.
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.service_config", json.dumps({"methodConfig": [_RETRIES]})),
)


def connect(address: str, num_translations: int | None = None) -> Translator:
    """Returns the translator of a served model, `grpc://HOST:PORT/MODEL`.

    `grpcs://` is for a server behind TLS; `/VERSION` may follow. A request is
    sent up to five times, in about seven seconds, while the server is
    unavailable. It contains at most `max_batch_size` texts, and `workers`
    requests are sent at the same time.
    """
    match = re.fullmatch(_ADDRESS, address)
    if match is None:
        raise InputError(
            "A served model has an address such as "
            f"grpc://localhost:8500/en-de. Received: {address}"
        )
    scheme, host, model, version = match.groups()
    if scheme == "grpc":
        channel = grpc.insecure_channel(host, _OPTIONS)
    else:
        credentials = grpc.ssl_channel_credentials()
        channel = grpc.secure_channel(host, credentials, _OPTIONS)
    service = services.PredictionServiceStub(channel)

    def send(method: Any, request: Any) -> Any:
        request.model_spec.name = model
        if version is not None:
            request.model_spec.version.value = int(version)
        try:
            return method(request, timeout=_SECONDS)
        except grpc.RpcError as error:
            # The other lines of TensorFlow's messages are paths in the graph.
            details = (error.details() or "").partition("\n")[0]
            raise InputError(
                f"TensorFlow Serving must answer at {address}. Received: "
                f"{error.code().name}, {details:.500}"
            ) from error

    def predict(
        signature: str, inputs: Mapping[str, list[str]]
    ) -> dict[str, np.ndarray]:
        request = messages.PredictRequest()
        request.model_spec.signature_name = signature
        for name, texts in inputs.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(texts))
        outputs = send(service.Predict, request).outputs
        return {name: tf.make_ndarray(x) for name, x in outputs.items()}

    request = get_model_metadata_pb2.GetModelMetadataRequest()
    request.metadata_field.append("signature_def")
    response = send(service.GetModelMetadata, request)
    described = get_model_metadata_pb2.SignatureDefMap()
    response.metadata["signature_def"].Unpack(described)
    signatures = described.signature_def
    outputs = signatures["serving_default"].outputs
    if "translations" not in outputs:
        raise InputError(
            "A served model must have been written by `export`. Received: "
            f"{address}, where serving_default does not return translations"
        )
    exported = outputs["translations"].tensor_shape.dim[1].size
    backend = ServedBackend(
        predict,
        name=address,
        signatures=sorted(signatures),
        metadata={"num_translations": exported},
        num_translations=num_translations,
    )
    translator = Translator(backend, tokenizer=None)
    translator.max_batch_size = 32  # usually a server's
    translator.workers = translator.recommended_workers = 4
    return translator
