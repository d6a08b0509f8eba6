"""`Client`: translates with a model that TensorFlow Serving serves.

Importing this module raises an InputError unless the package
tensorflow-serving-api is installed.
"""

import contextlib
import functools
import json
from typing import Any

import grpc
import numpy as np
import tensorflow as tf

from keras_transformer.inference.served_signatures import (
    SignatureTranslator,
    default_count,
)
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import (
    POSITIVE_INTEGER,
    POSITIVE_NUMBER,
    check_values,
)
from keras_transformer.support.startup import explain_missing_packages

with explain_missing_packages(InputError):
    from tensorflow_serving.apis import get_model_metadata_pb2
    from tensorflow_serving.apis import predict_pb2 as messages
    from tensorflow_serving.apis import prediction_service_pb2_grpc as services

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
    # The default is 2 minutes, in which every retry fails at once.
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.service_config", json.dumps({"methodConfig": [_RETRIES]})),
)


class ServingError(Exception):
    """Raised when TensorFlow Serving does not answer a request."""

    @property
    def code(self) -> grpc.StatusCode:
        """The status that gRPC reports."""
        return self.args[1]

    def __str__(self) -> str:
        return self.args[0]


class Client(SignatureTranslator, contextlib.AbstractContextManager):
    """Translates with a model that TensorFlow Serving serves.

    A request that the server has no capacity for, or that does not reach it
    (status UNAVAILABLE), is sent up to five times, which takes about seven
    seconds. All methods raise a `ServingError` if the server does not answer,
    and an `InputError` if the model lacks what they need. Close the client, or
    use it in a `with` statement.

    Args:
        model: Name of the served model.
        address: Host and gRPC port of the server.
        version: Version of the model. Default: the latest that is served.
        timeout: Seconds that a request may take, with all its retries.
        batch_size: Texts in a request; at most `max_batch_size` of the
            server's batching settings.
        workers: Requests that are sent at the same time.
        credentials: For a server behind TLS: `grpc.ssl_channel_credentials()`.

    Example:

    ```python
    with Client("en-de") as client:
        client.translate("I am a student.").texts[0]  # "Ich bin Student."
        client("A dog.")  # "Ein Hund."
    ```
    """

    def __init__(
        self,
        model: str,
        address: str = "localhost:8500",
        *,
        version: int | None = None,
        timeout: float = 60.0,
        batch_size: int = 32,
        workers: int = 4,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        check_values(POSITIVE_NUMBER, timeout=timeout)
        check_values(POSITIVE_INTEGER, batch_size=batch_size, workers=workers)
        self.address, self.model, self.version = address, model, version
        self.timeout = timeout
        self.max_batch_size, self.workers = batch_size, workers
        if credentials is None:
            self._channel = grpc.insecure_channel(address, _OPTIONS)
        else:
            self._channel = grpc.secure_channel(address, credentials, _OPTIONS)
        self._service = services.PredictionServiceStub(self._channel)

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def description(self) -> str:
        return f"the model {self.model!r} at {self.address}"

    @property
    def num_translations(self) -> int:
        """Translations returned per text, as the model was exported."""
        return default_count(self.description, self.own_signatures)

    @functools.cached_property
    def own_signatures(self) -> dict[str, dict[str, tf.TensorShape]]:
        """The shapes of outputs by signature, as the server describes them."""
        request = get_model_metadata_pb2.GetModelMetadataRequest()
        self._set_model(request, "serving_default")
        request.metadata_field.append("signature_def")
        response = self._send(self._service.GetModelMetadata, request)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        response.metadata["signature_def"].Unpack(signatures)
        return {
            name: {
                output: tf.TensorShape(tensor.tensor_shape)
                for output, tensor in signature.outputs.items()
            }
            for name, signature in signatures.signature_def.items()
        }

    def predict(
        self, signature: str, /, **inputs: Any
    ) -> dict[str, np.ndarray]:
        """Sends one request to any signature of the model.

        Args:
            signature: Name of the signature.
            **inputs: Its inputs by name: what `tf.make_tensor_proto` takes.

        Returns:
            Its outputs by name. Strings are `bytes` in arrays of objects.
        """
        request = messages.PredictRequest()
        self._set_model(request, signature)
        for name, value in inputs.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
        outputs = self._send(self._service.Predict, request).outputs
        return {name: tf.make_ndarray(x) for name, x in outputs.items()}

    def _set_model(self, request: Any, signature: str) -> None:
        request.model_spec.name = self.model
        request.model_spec.signature_name = signature
        if self.version is not None:
            request.model_spec.version.value = self.version

    def _send(self, method: Any, request: Any) -> Any:
        try:
            return method(request, timeout=self.timeout)
        except grpc.RpcError as error:
            code = error.code()
            # The rest of TensorFlow's messages is a path through the graph.
            details = (error.details() or "").partition("\n")[0]
            raise ServingError(
                f"TensorFlow Serving at {self.address} must answer a request "
                f"to the model {self.model!r}. Received: {code.name}, "
                f"{details:.500}",
                code,
            ) from error
