"""`ServedTranslator`: translates with a model that takes texts."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from keras_transformer.inference.base import BaseTranslator
from keras_transformer.inference.exports import Export
from keras_transformer.inference.records import Score, Translation
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import explain_missing_packages
from keras_transformer.text.normalization import without_blank

# Calls a signature with texts by name; outputs have strings as `bytes`.
Predict = Callable[[str, Mapping[str, list[str]]], Mapping[str, np.ndarray]]

_CHARACTERS_PER_TOKEN = 4  # about; the model itself counts tokens


class ServedTranslator(BaseTranslator):
    """Translates with the signatures of a model that `export` wrote.

    Args:
        predict: Calls a signature.
        name: What messages call the model.
        signatures: The names of its signatures.
        num_translations: n, at most that of the export.
        metadata: What the export recorded, if known.
    """

    def __init__(
        self,
        predict: Predict,
        name: str,
        signatures: Collection[str],
        num_translations: int,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self._predict = predict
        self.name, self.signatures = name, signatures
        self.num_translations = num_translations
        self.metadata = metadata or {}
        self.max_length = self.metadata.get("max_length")
        self.dtype = self.metadata.get("dtype")
        self.target_languages = self.metadata.get("languages", ())

    def _encode_sources(self, texts: Sequence[str]) -> list[str]:
        return without_blank(texts)

    _encode_targets = _encode_sources

    def _length(self, encoded: str) -> float:
        longest = (self.max_length or math.inf) - 1
        return min(len(encoded) / _CHARACTERS_PER_TOKEN, longest)

    def _translate_batch(
        self, texts: list[str], sources: list[str], prefixes: list[str]
    ) -> list[Translation]:
        signature, inputs = "serving_default", {"text": texts}
        if any(prefixes):
            signature, inputs["prefix"] = "translate_prefix", prefixes
        outputs = self.predict(signature, **inputs)
        names = "translations", "scores", "source_truncated", "at_length_limit"
        rows = zip(*(outputs[name].tolist() for name in names), strict=True)
        n = self.num_translations
        return [
            # A model may spell bytes that are not UTF-8.
            Translation(
                [x.decode("utf-8", "replace") for x in found[:n]],
                scores[:n],
                *flags,
            )
            for found, scores, *flags in rows
        ]

    def _score_batch(
        self, sources: list[str], targets: list[str]
    ) -> list[Score | None]:
        outputs = self.predict("score", text=sources, translation=targets)
        are_cut = outputs["source_truncated"] | outputs["translation_truncated"]
        names = "scores", "log_probs", "perplexities", "lengths"
        columns = [outputs[name].tolist() for name in names]
        return [
            None if is_cut else Score(*values)
            for is_cut, *values in zip(are_cut, *columns, strict=True)
        ]

    def predict(
        self, signature: str, /, **inputs: list[str]
    ) -> Mapping[str, np.ndarray]:
        """Returns the outputs of a signature, of texts by input, by name.

        Raises InputError if the model does not have the signature.
        """
        if signature not in self.signatures:
            raise InputError(
                f"This needs a model with the signature {signature}. "
                f"Received: {self.name} with {', '.join(self.signatures)}. "
                "Export it again."
            )
        return self._predict(signature, inputs)


def open_saved_model(export: Export, num_translations: int) -> ServedTranslator:
    """Returns the translator of a SavedModel, computed in this process."""
    with explain_missing_packages(InputError):
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  registers its operations
    try:
        model = tf.saved_model.load(export.path)
    except (OSError, ValueError, IndexError, tf.errors.OpError) as error:
        raise InputError(
            f"{export.path} must be a SavedModel. Received: "
            f"{error!s:.200}. Export the run again."
        ) from error

    def predict(
        signature: str, inputs: Mapping[str, list[str]]
    ) -> dict[str, np.ndarray]:
        # `model` keeps the variables, which signatures do not.
        tensors = {name: tf.constant(texts) for name, texts in inputs.items()}
        outputs = model.signatures[signature](**tensors)
        return {name: values.numpy() for name, values in outputs.items()}

    translator = ServedTranslator(
        predict,
        str(export.path),
        list(model.signatures),
        num_translations,
        export.metadata,
    )
    translator.search = export.search
    return translator
