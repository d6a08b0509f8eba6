"""Translates with an exported model, in this process or on a server."""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from keras_transformer.decoding.settings import Search
from keras_transformer.inference.backend import Backend, EncodedPairs
from keras_transformer.inference.exports import Export, check_exported
from keras_transformer.inference.records import Score, Translation
from keras_transformer.inference.translator import Translator
from keras_transformer.support.errors import InputError, explain_damage
from keras_transformer.support.startup import explain_missing_packages
from keras_transformer.text.normalization import without_blank

# Calls a signature with texts by name; strings in outputs are `bytes`.
Predict = Callable[[str, Mapping[str, list[str]]], Mapping[str, np.ndarray]]

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


class ServedBackend(Backend):
    """Translates with the signatures of a model that `export` wrote.

    Args:
        predict: Calls a signature.
        name: The model's name in messages.
        signatures: The names of its signatures.
        metadata: The export's metadata, as far as they are known.
        search: Its search, if known.
        num_translations: n. Default: as many as were exported.
    """

    units_per_token = 4  # characters, about

    def __init__(
        self,
        predict: Predict,
        name: str,
        signatures: Collection[str],
        metadata: Mapping[str, Any],
        search: Search | None = None,
        num_translations: int | None = None,
    ) -> None:
        most = metadata["num_translations"]
        count = most if num_translations is None else num_translations
        check_exported("num_translations", count, most, name)
        self._predict = predict
        self.name = name
        self.signatures = signatures
        self.num_translations = int(count)
        self.search = search
        self.max_length = metadata.get("max_length")
        self.dtype = metadata.get("dtype")
        self.target_languages = metadata.get("languages", ())

    def encode_sources(self, texts: Sequence[str]) -> list[str]:
        blank = [f">>{language}<<" for language in self.target_languages]
        return ["" if x.strip() in blank else x for x in without_blank(texts)]

    encode_targets = encode_sources

    def translate(self, pairs: EncodedPairs, workers: int) -> list[Translation]:
        count = self.num_translations
        signature = "serving_default"
        inputs = {"text": [pair.text for pair in pairs]}
        if any(pair.target for pair in pairs):
            signature = "translate_prefix"
            inputs["prefix"] = [pair.target for pair in pairs]
        outputs = self.predict(signature, inputs)
        return [
            Translation(
                texts=[
                    text.decode(errors="ignore")
                    for text in outputs["translations"][row, :count].tolist()
                ],
                scores=outputs["scores"][row, :count].tolist(),
                source_truncated=bool(outputs["source_truncated"][row]),
                at_length_limit=bool(outputs["at_length_limit"][row]),
            )
            for row in range(len(pairs))
        ]

    def score(self, pairs: EncodedPairs, workers: int) -> list[Score | None]:
        inputs = {
            "text": [pair.source for pair in pairs],
            "translation": [pair.target for pair in pairs],
        }
        outputs = self.predict("score", inputs)
        are_cut = outputs["source_truncated"] | outputs["translation_truncated"]
        return [
            None
            if are_cut[row]
            else Score(
                score=outputs["scores"][row].item(),
                log_prob=outputs["log_probs"][row].item(),
                perplexity=outputs["perplexities"][row].item(),
                num_tokens=outputs["lengths"][row].item(),
            )
            for row in range(len(pairs))
        ]

    def predict(
        self, signature: str, inputs: Mapping[str, list[str]]
    ) -> Mapping[str, np.ndarray]:
        """Returns the outputs of a signature, by name."""
        if signature not in self.signatures:
            raise InputError(
                f"This needs the signature {signature}. Received: {self.name}, "
                f"with {', '.join(self.signatures)}. Export the run again."
            )
        return self._predict(signature, inputs)


def open_saved_model(
    export: Export, num_translations: int | None
) -> Translator:
    """Returns the translator of a SavedModel, which runs in this process."""
    with explain_missing_packages():
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  registers its operations
    advice = "Export the run again."
    with explain_damage(export.path, "a complete SavedModel", advice):
        model = tf.saved_model.load(export.path)

    def predict(
        signature: str, inputs: Mapping[str, list[str]]
    ) -> dict[str, np.ndarray]:
        # The closure keeps `model`: signatures do not keep its variables.
        tensors = {name: tf.constant(texts) for name, texts in inputs.items()}
        outputs = model.signatures[signature](**tensors)
        return {name: values.numpy() for name, values in outputs.items()}

    backend = ServedBackend(
        predict,
        name=str(export.path),
        signatures=list(model.signatures),
        metadata=export.metadata,
        search=export.search,
        num_translations=num_translations,
    )
    translator = Translator.served(backend)
    translator.languages = export.languages
    translator.metadata = export.metadata
    return translator


def connect(address: str, num_translations: int | None = None) -> Translator:
    """Returns the translator of a served model, `grpc://HOST:PORT/MODEL`.

    `grpcs://` is for a server behind TLS; `/VERSION` may follow. A request is
    sent up to five times, in about seven seconds, while the server is
    unavailable. It contains at most `max_batch_size` texts, and `workers`
    requests are sent at the same time.
    """
    with explain_missing_packages():
        import grpc
        import tensorflow as tf
        from tensorflow_serving.apis import (
            get_model_metadata_pb2,
            predict_pb2,
            prediction_service_pb2_grpc,
        )

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
    service = prediction_service_pb2_grpc.PredictionServiceStub(channel)

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
        request = predict_pb2.PredictRequest()
        request.model_spec.signature_name = signature
        for name, texts in inputs.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(texts))
        outputs = send(service.Predict, request).outputs
        return {name: tf.make_ndarray(x) for name, x in outputs.items()}

    request = get_model_metadata_pb2.GetModelMetadataRequest()
    request.metadata_field.append("signature_def")
    response = send(service.GetModelMetadata, request)
    definitions = get_model_metadata_pb2.SignatureDefMap()
    response.metadata["signature_def"].Unpack(definitions)
    signatures = definitions.signature_def
    outputs = signatures["serving_default"].outputs
    if "translations" not in outputs:
        raise InputError(
            "A served model must have been written by `export`. Received: "
            f"{address}, where serving_default does not return translations"
        )
    count = outputs["translations"].tensor_shape.dim[1].size
    backend = ServedBackend(
        predict,
        name=address,
        signatures=sorted(signatures),
        metadata={"num_translations": count},
        num_translations=num_translations,
    )
    translator = Translator.served(backend)
    translator.max_batch_size = 32  # usually a server's
    translator.workers = translator.recommended_workers = 4
    return translator
