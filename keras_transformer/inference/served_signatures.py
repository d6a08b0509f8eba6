"""Signatures of a served model, and translators that call them."""

import abc
import contextlib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

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
from keras_transformer.text.normalization import replace_invalid

_CHARACTERS_PER_TOKEN = 4  # about; the model itself counts tokens

Arrays = dict[str, np.ndarray]  # by name; strings are bytes or str


class TensorSpec(NamedTuple):
    """Type and shape of an input or output."""

    dtype: str  # TensorFlow's name, such as "string"
    shape: tuple[int | None, ...] | None  # None: any rank


class Signature(NamedTuple):
    """A function of named arrays."""

    inputs: Mapping[str, TensorSpec]
    # A function: the first call may trace the graph.
    outputs: Callable[[], Mapping[str, TensorSpec]]
    # Raises InputError if the arrays do not fit.
    call: Callable[[Arrays], Arrays]


def translator_signatures(
    translator: BaseTranslator,
) -> dict[str, Signature]:
    """Returns the signatures of any translator.

    A SavedModel has its own. Others have `serving_default` and, if targets are
    text, `translate_prefix`, with the outputs that those of a SavedModel have.
    """
    if translator.own_signatures:
        return dict(translator.own_signatures)
    task, n = translator.task, translator.num_translations
    texts, flags = TensorSpec("string", (None,)), TensorSpec("bool", (None,))
    fields = Translation(
        TensorSpec("string", (None, n)),
        TensorSpec("float32", (None, n)),
        *[flags] * (len(Translation._fields) - 2),
    )
    outputs = task.columns(fields)

    def translate(inputs: Arrays) -> Arrays:
        lists = {
            name: [_decoded(text) for text in array.tolist()]
            for name, array in inputs.items()
        }
        translations = translator.translate(
            lists["text"], prefixes=lists.get("prefix")
        )
        columns = list(zip(*translations, strict=True))
        columns = columns or [()] * len(Translation._fields)  # of no texts
        arrays = {}
        for name, values in task.columns(Translation(*columns)).items():
            dtype, shape = outputs[name]
            dtype = object if dtype == "string" else dtype
            shape = (len(translations), *shape[1:])
            arrays[name] = np.array(values, dtype).reshape(shape)
        return arrays

    def signature(*names: str) -> Signature:
        return Signature(
            dict.fromkeys(names, texts), lambda: outputs, translate
        )

    signatures = {"serving_default": signature("text")}
    if task.targets_are_text:
        signatures["translate_prefix"] = signature("text", "prefix")
    return signatures


def _decoded(text: str | bytes) -> str:
    """Returns a text; as in a graph, U+FFFD is each byte that is not UTF-8."""
    if isinstance(text, str):
        return text
    return replace_invalid(text.decode(errors="surrogateescape"))


def graph_signatures(functions: Mapping[str, Any]) -> dict[str, Signature]:
    """Returns the signatures of TensorFlow functions by name.

    Args:
        functions: Instances of `tf.function` with an input signature, which
            are traced when they are used.
    """
    return {
        name: _graph_signature(function) for name, function in functions.items()
    }


def _graph_signature(function: Any) -> Signature:
    import tensorflow as tf

    inputs = {spec.name: spec for spec in function.input_signature}

    def outputs() -> dict[str, TensorSpec]:
        tensors = function.get_concrete_function().structured_outputs
        return {name: tensor_spec(tensors[name]) for name in sorted(tensors)}

    def call(arrays: Arrays) -> Arrays:
        tensors = [tf.constant(arrays[x], y.dtype) for x, y in inputs.items()]
        with input_errors():
            results = function(*tensors)
        return {name: results[name].numpy() for name in sorted(results)}

    specs = {name: tensor_spec(spec) for name, spec in inputs.items()}
    return Signature(specs, outputs, call)


@contextlib.contextmanager
def input_errors() -> Iterator[None]:
    """Raises InputError for inputs that a graph refuses."""
    import tensorflow as tf

    try:
        yield
    except (tf.errors.InvalidArgumentError, ValueError) as error:
        message = str(error)
        assertion = re.search("assertion failed: .*", message)
        raise InputError(assertion[0] if assertion else message) from error


def tensor_spec(tensor: Any) -> TensorSpec:
    """Returns type and shape of a tensor or a `tf.TensorSpec`."""
    shape = tensor.shape
    known = None if shape.rank is None else tuple(shape.as_list())
    return TensorSpec(tensor.dtype.name, known)


# The signature that each capability needs.
_NEEDED = {
    "prefixes": "translate_prefix",
    "score": "score",
    "perplexity": "score",
}


def default_count(model: str, signatures: Mapping[str, Signature]) -> int:
    """Returns a model's translations per text.

    Args:
        model: What messages call it.
        signatures: All that it has.

    Raises:
        InputError: If its `serving_default` is not one of a translator.
    """
    default = signatures.get("serving_default")
    outputs = default.outputs() if default else {}
    shape = outputs["translations"].shape if "translations" in outputs else None
    if not shape or len(shape) != 2 or list(default.inputs) != ["text"]:
        raise InputError(
            f"{model} must have the signature serving_default with the input "
            "text and the output translations of rank 2, as `export` writes "
            f"it. Received: {', '.join(outputs) or 'none'}"
        )
    return shape[1]


class SignatureTranslator(BaseTranslator):
    """Base class of translators that call the signatures of an exported model.

    A subclass provides `predict` and `own_signatures`, and describes the
    model.
    """

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
        ranks = {"translations": 2, "scores": 2}
        ranks |= {"source_truncated": 1, "at_length_limit": 1}
        columns = self._columns(outputs, ranks, rows)
        best = [column[:, : self._kept] for column in columns[:2]]
        return translations_of_columns([*best, *columns[2:]])

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
        names += ("source_truncated", "translation_truncated")
        columns = self._columns(outputs, dict.fromkeys(names, 1), rows)
        values, cut = [column.tolist() for column in columns[:4]], columns[4:]
        scores = [Score(*row) for row in zip(*values, strict=True)]
        return [
            TooLong("source" if source_cut else "target")
            if source_cut or target_cut
            else score
            for score, source_cut, target_cut in zip(scores, *cut, strict=True)
        ]

    def _columns(
        self,
        outputs: Mapping[str, np.ndarray],
        ranks: Mapping[str, int],
        rows: list[int],
    ) -> list[np.ndarray]:
        """Returns outputs by their names.

        Raises:
            InputError: If they are not as `export` makes them: one value for
                each row, and strings for texts alone.
        """
        for name, rank in ranks.items():
            values = outputs.get(name)
            if values is None or (
                (values.ndim, len(values), values.dtype == object)
                != (rank, len(rows), name == "translations")
            ):
                described = ", ".join(
                    f"{x} {y.dtype.name} {list(y.shape)}"
                    for x, y in outputs.items()
                )
                raise InputError(
                    f"For {len(rows)} texts, a model must return {name} of "
                    f"rank {rank}, as the models of `keras-transformer export` "
                    f"do. Received: {described or 'nothing'}, from "
                    f"{self.description}. Export the model again, or check "
                    "its name and version."
                )
        return [outputs[name] for name in ranks]
