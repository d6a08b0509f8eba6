"""`ServedTranslator`: translates with an exported model, which takes texts."""

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

# Calls a signature with texts by name; strings in outputs are `bytes`.
Predict = Callable[[str, Mapping[str, list[str]]], Mapping[str, np.ndarray]]

_CHARACTERS_PER_TOKEN = 4  # about, to make batches


class ServedTranslator(BaseTranslator):
    """Translates with the signatures of a model that `export` wrote.

    Args:
        predict: Calls a signature.
        name: The model's name in messages.
        signatures: The names of its signatures.
        num_translations: n, at most as many as were exported.
        metadata: The export's metadata, if known.
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
        self.num_translations = int(num_translations)
        self.metadata = metadata or {}
        self.max_length = self.metadata.get("max_length")
        self.dtype = self.metadata.get("dtype")
        self.target_languages = self.metadata.get("languages", ())

    def _encode_sources(self, texts: Sequence[str]) -> list[str]:
        blank = [f">>{language}<<" for language in self.target_languages]
        return ["" if x.strip() in blank else x for x in without_blank(texts)]

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
        rows = zip(texts, *(outputs[x].tolist() for x in names), strict=True)
        translations, n = [], self.num_translations
        for text, encoded, scores, *flags in rows:
            best = [x.decode(errors="ignore") for x in encoded[:n]]
            differ = self.task.numbers_differ(text, best[0])
            translations.append(
                Translation(best, scores[:n], *flags, numbers_differ=differ)
            )
        return translations

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
        """Returns the outputs of a signature, by name."""
        if signature not in self.signatures:
            raise InputError(
                f"This needs the signature {signature}. Received: {self.name}, "
                f"with {', '.join(self.signatures)}. Export the run again."
            )
        return self._predict(signature, inputs)


def open_saved_model(export: Export, num_translations: int) -> ServedTranslator:
    """Returns the translator of a SavedModel, which runs in this process."""
    with explain_missing_packages(InputError):
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  registers its operations
    try:
        model = tf.saved_model.load(export.path)
    except (OSError, ValueError, IndexError, tf.errors.OpError) as error:
        raise InputError(
            f"{export.path} must be a SavedModel that can be read. Received: "
            f"{error!s:.200}. If a file is damaged, export the run again."
        ) from error

    def predict(
        signature: str, inputs: Mapping[str, list[str]]
    ) -> dict[str, np.ndarray]:
        # The closure keeps `model`: signatures do not keep its variables.
        tensors = {name: tf.constant(texts) for name, texts in inputs.items()}
        outputs = model.signatures[signature](**tensors)
        return {name: values.numpy() for name, values in outputs.items()}

    name, signatures = str(export.path), list(model.signatures)
    translator = ServedTranslator(
        predict, name, signatures, num_translations, export.metadata
    )
    translator.search = export.search
    return translator
