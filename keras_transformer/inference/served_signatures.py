"""Translators that call the signatures of a served model."""

import abc
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_transformer.inference.base import BaseTranslator
from keras_transformer.inference.records import (
    EncodedTexts,
    Score,
    TooLong,
    Translation,
    translations_of_columns,
)
from keras_transformer.support.errors import InputError

_CHARACTERS_PER_TOKEN = 4  # about; the model itself counts tokens

# The signature that each capability needs.
_NEEDED = {
    "prefixes": "translate_prefix",
    "score": "score",
    "perplexity": "score",
}


def default_count(
    model: str, signatures: Mapping[str, Mapping[str, Any]]
) -> int:
    """Returns a model's translations per text.

    Args:
        model: What messages call it.
        signatures: The shapes of outputs by name, by signature.

    Raises:
        InputError: If its `serving_default` does not translate.
    """
    outputs = signatures.get("serving_default", {})
    if "translations" not in outputs:
        raise InputError(
            f"{model} must have the signature serving_default with the output "
            "translations, as `export` writes it. Received: "
            f"{', '.join(outputs) or 'none'}"
        )
    return outputs["translations"][1]


class SignatureTranslator(BaseTranslator):
    """Base class of translators that call the signatures of an exported model.

    A subclass provides `predict`, and describes the model.
    """

    own_signatures: Mapping[str, Any]  # by name

    # Translations of a text that are kept; None: all that the model returns.
    _kept: int | None = None

    @property
    def capabilities(self) -> frozenset[str]:
        """Those whose signature the model has."""
        names = self.own_signatures
        return frozenset(x for x, name in _NEEDED.items() if name in names)

    @abc.abstractmethod
    def predict(
        self, signature: str, /, **inputs: Any
    ) -> dict[str, np.ndarray]:
        """Returns the outputs of a signature by name; strings are `bytes`."""

    def _encode_sources(self, texts: list[str]) -> EncodedTexts:
        longest = (self.max_length or math.inf) - 1
        return EncodedTexts(
            texts,
            [min(len(x) / _CHARACTERS_PER_TOKEN, longest) for x in texts],
        )

    _encode_targets = _encode_sources

    def _translate_batch(
        self,
        rows: list[int],
        workers: int,
        sources: EncodedTexts,
        prefixes: EncodedTexts | None,
    ) -> list[Translation]:
        inputs = {"text": [sources.texts[row] for row in rows]}
        signature = "serving_default"
        if prefixes is not None:
            signature = "translate_prefix"
            inputs["prefix"] = [prefixes.texts[row] for row in rows]
        outputs = self.predict(signature, **inputs)
        best = [
            outputs[name][:, : self._kept]
            for name in ("translations", "scores")
        ]
        flags = outputs["source_truncated"], outputs["at_length_limit"]
        return translations_of_columns([*best, *flags])

    def _score_batch(
        self,
        rows: list[int],
        workers: int,
        sources: EncodedTexts,
        targets: EncodedTexts,
    ) -> list[Score | TooLong]:
        outputs = self.predict(
            "score",
            text=[sources.texts[row] for row in rows],
            translation=[targets.texts[row] for row in rows],
        )
        names = ("scores", "log_probs", "perplexities", "lengths")
        values = [outputs[name].tolist() for name in names]
        cut = outputs["source_truncated"], outputs["translation_truncated"]
        scores = [Score(*row) for row in zip(*values, strict=True)]
        return [
            TooLong("source" if source_cut else "target")
            if source_cut or target_cut
            else score
            for score, source_cut, target_cut in zip(scores, *cut, strict=True)
        ]
