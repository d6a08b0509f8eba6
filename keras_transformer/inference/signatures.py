"""Signatures: what a served model can be asked for, as arrays by name."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from keras_transformer.inference.texts import BaseTranslator, Translation
from keras_transformer.support.errors import InputError

Arrays = dict[str, np.ndarray]  # by name; strings are bytes or str


class TensorSpec(NamedTuple):
    """What a tensor must be."""

    dtype: str  # as TensorFlow calls it, such as "string"
    shape: tuple[int | None, ...] | None  # None: of any rank


class Signature(NamedTuple):
    """A function of named arrays."""

    inputs: Mapping[str, TensorSpec]
    # Called when it is needed: to know it may take a trace of the graph.
    outputs: Callable[[], Mapping[str, TensorSpec]]
    # Raises InputError if the arrays do not fit.
    call: Callable[[Arrays], Arrays]


def translator_signatures(
    translator: BaseTranslator,
) -> dict[str, Signature]:
    """Returns the signatures that any translator has.

    They are `serving_default` and, if targets are text, `translate_prefix`,
    and return what those of a SavedModel return.
    """
    task, n = translator.task, translator.num_translations
    texts, flags = TensorSpec("string", (None,)), TensorSpec("bool", (None,))
    fields = Translation(
        TensorSpec("string", (None, n)),
        TensorSpec("float32", (None, n)),
        *[flags] * (len(Translation._fields) - 2),
    )
    outputs = task.columns(fields)

    def translate(inputs: Arrays) -> Arrays:
        given = {name: array.tolist() for name, array in inputs.items()}
        prefixes = given.get("prefix")
        found = translator.translate(given["text"], prefixes=prefixes)
        columns = task.columns(
            Translation(
                *([getattr(one, x) for one in found] for x in fields._fields)
            )
        )
        kinds = {"string": object}
        return {
            name: np.array(
                values, kinds.get(outputs[name].dtype, outputs[name].dtype)
            ).reshape(len(found), *outputs[name].shape[1:])
            for name, values in columns.items()
        }

    def signature(*names: str) -> Signature:
        return Signature(
            dict.fromkeys(names, texts), lambda: outputs, translate
        )

    signatures = {"serving_default": signature("text")}
    if task.targets_are_text:
        signatures["translate_prefix"] = signature("text", "prefix")
    return signatures


def graph_signatures(functions: Mapping[str, Any]) -> dict[str, Signature]:
    """Returns the signatures of TensorFlow functions by name.

    Args:
        functions: Those of a loaded SavedModel, or instances of `tf.function`
            with an input signature, which are traced when they are used.
    """
    return {name: _of_graph(function) for name, function in functions.items()}


def _of_graph(function: Any) -> Signature:
    import tensorflow as tf

    is_loaded = hasattr(function, "structured_input_signature")
    if is_loaded:
        inputs = function.structured_input_signature[1]
    else:
        inputs = {spec.name: spec for spec in function.input_signature}

    def outputs() -> dict[str, TensorSpec]:
        graph = function if is_loaded else function.get_concrete_function()
        found = graph.structured_outputs
        return {name: _spec(found[name]) for name in sorted(found)}

    def call(arrays: Arrays) -> Arrays:
        tensors = {
            name: tf.constant(arrays[name], spec.dtype)
            for name, spec in inputs.items()
        }
        try:
            if is_loaded:
                found = function(**tensors)
            else:
                found = function(*tensors.values())
        except (tf.errors.InvalidArgumentError, ValueError) as error:
            message = str(error)
            found = re.search("assertion failed: .*", message)
            raise InputError(found[0] if found else message) from error
        return {name: found[name].numpy() for name in sorted(found)}

    specs = {name: _spec(spec) for name, spec in inputs.items()}
    return Signature(specs, outputs, call)


def _spec(tensor: Any) -> TensorSpec:
    shape = tensor.shape
    known = None if shape.rank is None else tuple(shape.as_list())
    return TensorSpec(tensor.dtype.name, known)
