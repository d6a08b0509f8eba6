"""`Client`: translates with a model that TensorFlow Serving serves.

Importing this module raises an InputError unless the package
tensorflow-serving-api is installed.
"""

import contextlib
import functools
import itertools
import random
import time
from collections.abc import Mapping
from typing import Any

import grpc
import numpy as np
import tensorflow as tf

from keras_transformer.inference.served_signatures import (
    Arrays,
    Signature,
    SignatureTranslator,
    TensorSpec,
    default_count,
)
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import (
    NON_NEGATIVE_INTEGER,
    POSITIVE_INTEGER,
    POSITIVE_NUMBER,
    Rule,
    check_values,
    integer_from,
)
from keras_transformer.support.startup import explain_missing_packages

with explain_missing_packages(InputError):
    from tensorflow_serving.apis import get_model_metadata_pb2
    from tensorflow_serving.apis import predict_pb2 as messages
    from tensorflow_serving.apis import prediction_service_pb2_grpc as services

_NAME = Rule(lambda x: isinstance(x, str) and x != "", "a non-empty string")
_VERSION = integer_from(0, 2**63 - 1)
_SHORTEST_WAIT = 0.1  # seconds before the first retry
_LONGEST_WAIT = 5.0
_LONGEST_TIMEOUT = 1e9  # seconds; gRPC takes 1e10 for a time in the past
_OPTIONS = (  # of a channel
    # The default is 4 MiB; attention of a batch takes more.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # The default is 2 minutes, in which every retry fails at once.
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class ServingError(Exception):
    """Raised when TensorFlow Serving does not answer a request.

    Attributes:
        code: The `grpc.StatusCode` that says why.
    """

    def __init__(self, message: str, code: grpc.StatusCode) -> None:
        super().__init__(message, code)  # what pickle restores it from
        self.code = code

    def __str__(self) -> str:
        return self.args[0]


class Client(SignatureTranslator, contextlib.AbstractContextManager):
    """Translates with a model that TensorFlow Serving serves.

    A request that the server has no capacity for, or that does not reach it
    (status UNAVAILABLE), is sent again after 0.1 seconds, then 0.2 and so on
    up to 5, each varied at random (gRPC's own retry policy ends after five
    attempts). All methods raise a `ServingError` if the server does not
    answer, and an `InputError` if the model lacks what they need. Close the
    client, or use it in a `with` statement.

    Args:
        model: Name of the served model.
        address: Host and gRPC port of the server.
        version: Version of the model. Default: the latest that is served.
        timeout: Seconds that a request may take, with all its retries.
        retries: How often a request is sent again: 8 take 8 to 16 seconds.
        batch_size: Texts in a request; at most `max_batch_size` of the
            server's batching settings.
        workers: Requests that are sent at the same time.
        credentials: For a server behind TLS: `grpc.ssl_channel_credentials()`.

    Raises:
        InputError: If an argument is invalid.

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
        retries: int = 8,
        batch_size: int = 32,
        workers: int = 4,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        check_values(_NAME, model=model, address=address)
        if version is not None:
            check_values(_VERSION, version=version)
        check_values(POSITIVE_NUMBER, timeout=timeout)
        check_values(NON_NEGATIVE_INTEGER, retries=retries)
        check_values(POSITIVE_INTEGER, batch_size=batch_size, workers=workers)
        self.address, self.model, self.version = address, model, version
        self.timeout, self.retries = timeout, retries
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
    def own_signatures(self) -> dict[str, Signature]:
        """The signatures by name, as the server describes them."""
        request = get_model_metadata_pb2.GetModelMetadataRequest()
        self._set_model(request, "serving_default")
        request.metadata_field.append("signature_def")
        response = self._send(self._service.GetModelMetadata, request)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        response.metadata["signature_def"].Unpack(signatures)
        return {
            name: Signature(
                _specs(signature.inputs),
                functools.partial(_specs, signature.outputs),
                functools.partial(self._call, name),
            )
            for name, signature in signatures.signature_def.items()
        }

    def _call(self, signature: str, arrays: Arrays) -> Arrays:
        return self.predict(signature, **arrays)

    def predict(
        self, signature: str, /, **inputs: Any
    ) -> dict[str, np.ndarray]:
        """Sends one request to any signature of the model.

        Args:
            signature: Name of the signature.
            **inputs: Its inputs by name: what `tf.make_tensor_proto` takes.
                An empty list is an empty tensor of strings.

        Returns:
            Its outputs by name. Strings are `bytes` in arrays of objects.

        Raises:
            ServingError: If the server does not answer.
            InputError: If an input is no tensor.
        """
        request = messages.PredictRequest()
        self._set_model(request, signature)
        for name, value in inputs.items():
            dtype = tf.string if isinstance(value, list) and not value else None
            try:
                proto = tf.make_tensor_proto(value, dtype)
            except (TypeError, ValueError) as error:
                raise InputError(
                    f"{name} must be what `tf.make_tensor_proto` takes. "
                    f"Received: {value!r:.100} ({error!s:.200})"
                ) from error
            request.inputs[name].CopyFrom(proto)
        outputs = self._send(self._service.Predict, request).outputs
        return {name: tf.make_ndarray(x) for name, x in outputs.items()}

    def _set_model(self, request: Any, signature: str) -> None:
        request.model_spec.name = self.model
        request.model_spec.signature_name = signature
        if self.version is not None:
            request.model_spec.version.value = self.version

    def _send(self, method: Any, request: Any) -> Any:
        """Returns the response of a method, after retries that may help."""
        deadline = time.monotonic() + min(self.timeout, _LONGEST_TIMEOUT)
        longest_wait = _SHORTEST_WAIT
        for attempt in itertools.count(1):
            left = deadline - time.monotonic()
            try:
                return method(request, timeout=left)
            except grpc.RpcError as error:
                # Clients that failed together must not return together.
                wait = longest_wait * random.uniform(0.5, 1)
                if (
                    error.code() is not grpc.StatusCode.UNAVAILABLE
                    or attempt > self.retries
                    or time.monotonic() + wait >= deadline
                ):
                    raise self._explained(error, request, attempt) from error
            time.sleep(wait)
            longest_wait = min(2 * longest_wait, _LONGEST_WAIT)

    def _explained(
        self, error: grpc.RpcError, request: Any, attempts: int
    ) -> ServingError:
        code = error.code()
        expected = _EXPECTED.get(code.name, "The server must succeed.").format(
            client=self,
            version="latest" if self.version is None else self.version,
            signature=request.model_spec.signature_name,
            attempts=attempts,
        )
        # The rest of TensorFlow's messages is a path through the graph.
        details = "\n".join((error.details() or "").splitlines()[:3])[:1000]
        return ServingError(
            f"{expected} Received: {code.name}, {details}", code
        )


def _specs(tensors: Mapping[str, Any]) -> dict[str, TensorSpec]:
    """Returns the types and shapes of `TensorInfo` messages."""
    specs = {}
    for name, tensor in tensors.items():
        shape = tf.TensorShape(tensor.tensor_shape)
        known = None if shape.rank is None else tuple(shape.as_list())
        specs[name] = TensorSpec(tf.dtypes.as_dtype(tensor.dtype).name, known)
    return specs


# By status code: what was expected, and what to do.
_EXPECTED = {
    "UNAVAILABLE": "TensorFlow Serving must answer at {client.address}, and "
    "did not in {attempts} attempts. Check that it is running and has loaded "
    "the model, that this is its port for gRPC (8500, while 8501 is for REST), "
    "and whether it needs credentials.",
    "DEADLINE_EXCEEDED": "{client.address} must answer within "
    "timeout={client.timeout} seconds. Check the address, or set a longer "
    "timeout, a smaller batch_size or fewer workers.",
    "NOT_FOUND": "{client.address} must serve the model {client.model!r} "
    "(version: {version}). Name and version are those of its folder, "
    "NAME/VERSION.",
    "FAILED_PRECONDITION": "The model {client.model!r} must have the signature "
    "{signature!r}. Export it with this signature.",
    "INVALID_ARGUMENT": "Inputs must be those of the signature {signature!r}, "
    "and not more texts than max_batch_size of the server's batching settings.",
    "RESOURCE_EXHAUSTED": "A request must not be larger than the server, or a "
    "proxy before it, accepts, nor wait too long for a batch. Set a smaller "
    "batch_size or fewer workers.",
    "UNAUTHENTICATED": "{client.address} must know who asks. Pass "
    "`credentials` with the certificate or token that the server, or a proxy "
    "before it, expects.",
    "PERMISSION_DENIED": "{client.address} must allow requests to the model "
    "{client.model!r}. Pass `credentials` of somebody who may send them.",
    "UNIMPLEMENTED": "TensorFlow Serving must answer at {client.address}, and "
    "something else does. Check the address, and the settings of a proxy.",
}
