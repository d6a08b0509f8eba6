"""Translates with a model that TensorFlow Serving serves.

Importing this module raises an InputError unless the package
tensorflow-serving-api is installed.
"""

import concurrent.futures
import contextlib
import itertools
import math
import random
import time
import warnings
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import tensorflow as tf

from keras_transformer.inference.texts import Score, Translation
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import (
    NON_NEGATIVE_INTEGER,
    POSITIVE_INTEGER,
    POSITIVE_NUMBER,
    check_values,
)
from keras_transformer.text import join_sentences, read_texts, split_sentences

try:
    from tensorflow_serving.apis import predict_pb2 as messages
    from tensorflow_serving.apis import prediction_service_pb2_grpc as services
except ImportError as error:
    raise InputError(
        "tensorflow-serving-api is not installed. Run "
        'pip install "keras-transformer-nmt[serving]"'
    ) from error

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


class Client(contextlib.AbstractContextManager):
    """Translates with a model that TensorFlow Serving serves.

    Texts are sent in batches of similar length, several at the same time.
    A request that the server has no capacity for, or that does not reach it
    (status UNAVAILABLE), is sent again after 0.1 seconds, then 0.2 and so on
    up to 5, each varied at random (gRPC's own retry policy ends after five
    attempts). A client may be used by several threads. Close it, or use it in
    a `with` statement.

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
        client.translate_documents("A dog. A cat.")  # "Ein Hund. Eine Katze."
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
        check_values(POSITIVE_NUMBER, timeout=timeout)
        check_values(NON_NEGATIVE_INTEGER, retries=retries)
        check_values(POSITIVE_INTEGER, batch_size=batch_size, workers=workers)
        self.address, self.model, self.version = address, model, version
        self.timeout, self.retries = timeout, retries
        self.batch_size, self.workers = batch_size, workers
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

    def translate(
        self, texts: Any, *, prefixes: Any = None
    ) -> Translation | list[Translation]:
        """Translates texts.

        Args:
            texts: As in `Translator.translate`.
            prefixes: Likewise; the model needs the signature
                `translate_prefix`.

        Returns:
            A `Translation` for a single text, else a list with one per text.

        Raises:
            InputError: If a text is not a string, or not valid Unicode, or
                the numbers of texts and prefixes differ.
            ServingError: If the server does not answer.
        """
        texts, is_single = read_texts(texts)
        signature, inputs = "serving_default", {"text": texts}
        if prefixes is not None:
            signature = "translate_prefix"
            inputs["prefix"], _ = read_texts(prefixes, "prefixes")
        rows = self._call_in_batches(signature, inputs)
        output = "trees" if rows and "trees" in rows[0] else "translations"
        translations = [
            Translation(
                # A model may spell bytes that are not UTF-8.
                [text.decode("utf-8", "replace") for text in row[output]],
                row["scores"].tolist(),
                # Only parsers return `repaired`.
                *(bool(row.get(f, False)) for f in Translation._fields[2:]),
            )
            for row in rows
        ]
        return translations[0] if is_single else translations

    def translate_documents(
        self,
        documents: Any,
        split: Callable[[str], list[tuple[str, str]]] = split_sentences,
    ) -> str | list[str]:
        """Translates documents sentence by sentence.

        Whitespace between sentences is kept, as `join_sentences` says.

        Args:
            documents: One document, or an iterable of documents; a document
                is what `translate` takes as a text.
            split: Returns the sentences of a document, each with the
                whitespace that follows it.

        Returns:
            A string for a single document, else a list of strings.

        Raises:
            InputError, ServingError: As in `translate`.

        Warns:
            UserWarning: If a sentence or its translation was cut.
        """
        documents, is_single = read_texts(documents, "documents")
        split_documents = list(map(split, documents))
        sentences = {s: None for pairs in split_documents for s, _ in pairs}
        found = dict(zip(sentences, self.translate(sentences), strict=True))
        cut = [
            sentence
            for sentence, one in found.items()
            if one.source_truncated or one.at_length_limit
        ]
        if cut:
            warnings.warn(
                f"{len(cut)} of {len(found)} sentences or their "
                "translations are longer than the model's limits, and were "
                f"truncated. The first: {cut[0][:80]!r}",
                stacklevel=2,
            )
        joined = [
            join_sentences((found[s].texts[0], space) for s, space in pairs)
            for pairs in split_documents
        ]
        return joined[0] if is_single else joined

    def score(self, texts: Any, translations: Any) -> Score | list[Score]:
        """Returns how likely given translations are.

        The model needs the signature `score`.

        Args:
            texts: As in `translate`.
            translations: The translation of each text.

        Returns:
            A `Score` for a single pair, else a list with one per pair.

        Raises:
            InputError, ServingError: As in `translate`; the first also if a
                text is longer than the model reads.
        """
        texts, is_single = read_texts(texts)
        translations, _ = read_texts(translations, "translations")
        inputs = {"text": texts, "translation": translations}
        rows = self._call_in_batches("score", inputs)
        for i, row in enumerate(rows):
            if row["source_truncated"] or row["translation_truncated"]:
                raise InputError(
                    "A text to score must not be longer than the model reads. "
                    f"Received: a longer text or translation at index {i}"
                )
        numbers = ("scores", "log_probs", "perplexities")
        scores = [Score(*(row[n].item() for n in numbers)) for row in rows]
        return scores[0] if is_single else scores

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
        """
        request = messages.PredictRequest()
        request.model_spec.name = self.model
        request.model_spec.signature_name = signature
        if self.version is not None:
            request.model_spec.version.value = self.version
        for name, value in inputs.items():
            dtype = tf.string if isinstance(value, list) and not value else None
            proto = tf.make_tensor_proto(value, dtype)
            request.inputs[name].CopyFrom(proto)
        outputs = self._send(request).outputs
        return {name: tf.make_ndarray(x) for name, x in outputs.items()}

    def _call_in_batches(
        self, signature: str, inputs: dict[str, list[str]]
    ) -> list[dict[str, Any]]:
        """Returns the outputs by name of each text, in their order."""
        if len(set(map(len, inputs.values()))) > 1:
            counts = [f"{len(x)} of {name}" for name, x in inputs.items()]
            raise InputError(
                f"{signature} needs as many texts for each of its inputs. "
                f"Received: {', '.join(counts)}"
            )
        texts = inputs["text"]
        # Longest first: what the last worker is busy with is short.
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i].encode()))
        size = min(self.batch_size, math.ceil(len(texts) / self.workers)) or 1
        batches = [order[i : i + size] for i in range(0, len(order), size)]

        def call(batch: list[int]) -> dict[str, np.ndarray]:
            parts = {n: [x[i] for i in batch] for n, x in inputs.items()}
            return self.predict(signature, **parts)

        rows: list = [None] * len(texts)
        with concurrent.futures.ThreadPoolExecutor(self.workers) as pool:
            # After an error `map` cancels the requests that were not sent.
            answers = pool.map(call, batches)
            for batch, outputs in zip(batches, answers, strict=True):
                for row, i in enumerate(batch):
                    rows[i] = {n: x[row] for n, x in outputs.items()}
        return rows

    def _send(self, request: Any) -> Any:
        """Returns the response, after retries where they may help."""
        deadline = time.monotonic() + min(self.timeout, _LONGEST_TIMEOUT)
        longest_wait = _SHORTEST_WAIT
        for attempt in itertools.count(1):
            left = deadline - time.monotonic()
            try:
                return self._service.Predict(request, timeout=left)
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
        # What follows in TensorFlow's messages is a path through the graph.
        details = "\n".join((error.details() or "").splitlines()[:3])[:1000]
        return ServingError(
            f"{expected} Received: {code.name}, {details}", code
        )


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
    "UNIMPLEMENTED": "TensorFlow Serving must answer at {client.address}, and "
    "something else does. Check the address, and the settings of a proxy.",
}
