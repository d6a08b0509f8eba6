"""`ServedBackend`: translates with an exported model, which reads texts."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from keras_transformer.decoding.settings import Search
from keras_transformer.inference.backend import Backend, Pair
from keras_transformer.inference.exports import Export
from keras_transformer.inference.records import Score, Translation
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import check_values, integer_from
from keras_transformer.support.startup import explain_missing_packages
from keras_transformer.text.normalization import without_blank

# Calls a signature with texts by name; strings in outputs are `bytes`.
Predict = Callable[[str, Mapping[str, list[str]]], Mapping[str, np.ndarray]]


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
        exported = metadata["num_translations"]
        count = exported if num_translations is None else num_translations
        check_values(integer_from(1, exported), num_translations=count)
        self._predict = predict
        self.name = name
        self.signatures = signatures
        self.num_translations = int(count)
        self.search = search
        self.max_length = metadata.get("max_length")
        self.dtype = metadata.get("dtype")
        self.target_languages = metadata.get("languages", ())

    def encode(
        self, texts: Sequence[str], targets: Sequence[str], are_prefixes: bool
    ) -> list[Pair]:
        sources = self._without_blank(texts)
        targets = self._without_blank(targets)
        rows = zip(texts, sources, targets, strict=True)
        return [Pair(text, source, target) for text, source, target in rows]

    def _without_blank(self, texts: Sequence[str]) -> list[str]:
        blank = [f">>{language}<<" for language in self.target_languages]
        return ["" if x.strip() in blank else x for x in without_blank(texts)]

    def translate(
        self, pairs: Sequence[Pair], workers: int
    ) -> list[Translation]:
        count = self.num_translations
        signature = "serving_default"
        inputs = {"text": [pair.text for pair in pairs]}
        if any(pair.target for pair in pairs):
            signature = "translate_prefix"
            inputs["prefix"] = [pair.target for pair in pairs]
        outputs = self.predict(signature, **inputs)
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

    def score(self, pairs: Sequence[Pair], workers: int) -> list[Score | None]:
        outputs = self.predict(
            "score",
            text=[pair.source for pair in pairs],
            translation=[pair.target for pair in pairs],
        )
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
        self, signature: str, /, **inputs: list[str]
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
) -> ServedBackend:
    """Returns the backend of a SavedModel, which runs in this process."""
    with explain_missing_packages():
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

    return ServedBackend(
        predict,
        name=str(export.path),
        signatures=list(model.signatures),
        metadata=export.metadata,
        search=export.search,
        num_translations=num_translations,
    )
