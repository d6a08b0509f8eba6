"""JSON of TensorFlow Serving's REST API to arrays, and back."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_transformer.inference import served_signatures
from keras_transformer.inference.served_signatures import Signature, TensorSpec
from keras_transformer.support.errors import InputError

MOST_TEXTS = 32  # of a request
_BODY = (
    'A request must be {"instances": ["...", ...]} or '
    '{"inputs": {"text": ["...", ...]}}, with the inputs of its '
    '"signature_name".'
)


def predict_json(
    content: bytes, signatures: Mapping[str, Signature], max_characters: int
) -> str:
    """Returns the answer to the body of a request, as JSON.

    Its texts may have so many characters, and it may name these signatures.
    """
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{_BODY} Received: invalid JSON: {error}") from error
    if not isinstance(body, dict):
        raise InputError(
            f"{_BODY} Received: another value than an object: {body!r:.100}"
        )
    name = body.get("signature_name", "")
    if name == "":
        name = "serving_default"
    if not isinstance(name, str) or name not in signatures:
        raise InputError(
            "The signature_name must be one of "
            f"{', '.join(signatures)}. Received: {name!r:.100}"
        )
    if ("instances" in body) == ("inputs" in body):
        raise InputError(
            f'{_BODY} Received: not one of "instances" and "inputs": '
            f"{sorted(body)!r:.100}"
        )
    signature = signatures[name]
    names = list(signature.inputs)
    if "instances" in body:
        columns = _columns_of_instances(body["instances"], names)
    else:
        columns = _by_name(body["inputs"], names, "inputs")
    inputs = {
        name: _to_array(name, columns[name], spec, max_characters)
        for name, spec in signature.inputs.items()
    }
    arrays = signature.call(inputs)
    outputs = {x: np.asarray(array).tolist() for x, array in arrays.items()}
    if "instances" in body:
        answer = {"predictions": _to_instances(arrays, outputs)}
    else:
        answer = {"outputs": _without_single_name(outputs)}
    # Like TensorFlow Serving, it writes -Infinity, which JSON lacks.
    return json.dumps(
        answer,
        ensure_ascii=False,
        default=lambda text: text.decode("utf-8", "replace"),
    )


# === Inputs ===


def _by_name(value: Any, names: list[str], place: str) -> dict[str, Any]:
    """Returns values by the names of inputs, of which one needs no name."""
    if len(names) == 1 and not isinstance(value, dict):
        return {names[0]: value}
    if not isinstance(value, dict) or not set(names) <= set(value):
        raise InputError(
            f"{place} must have a value for each of {', '.join(names)}. "
            f"Received: {value!r:.100}"
        )
    return value


def _columns_of_instances(instances: Any, names: list[str]) -> dict[str, list]:
    if not isinstance(instances, list) or not instances:
        raise InputError(
            "instances must be a list with values. Received: "
            f"{instances!r:.100}"
        )
    rows = [
        _by_name(instance, names, f"instances[{i}]")
        for i, instance in enumerate(instances)
    ]
    are_named = {row is x for row, x in zip(rows, instances, strict=True)}
    # TensorFlow Serving ignores further names in "inputs", but not here.
    if len(are_named) > 1 or any(set(row) != set(names) for row in rows):
        raise InputError(
            f"instances must all be objects with {', '.join(names)} and "
            "nothing else, or all be plain values of a single input. "
            f"Received: {instances!r:.100}"
        )
    return {name: [row[name] for row in rows] for name in names}


def _to_array(
    name: str, value: Any, spec: TensorSpec, max_characters: int
) -> np.ndarray:
    if isinstance(value, list) and len(value) > MOST_TEXTS:
        raise InputError(
            f"A request may have at most {MOST_TEXTS} texts. Received: "
            f"{len(value)} values of {name}"
        )
    array = np.array(value, object)  # lists of different lengths stay in it
    if spec.shape is not None and array.ndim != len(spec.shape):
        raise InputError(
            f"{name} must be of rank {len(spec.shape)}. Received: rank "
            f"{array.ndim}"
        )
    elements = array.reshape(-1)  # a view; NumPy iterates over 32 dimensions
    for i, element in enumerate(elements):
        _check_type(name, element, spec.dtype)
        if spec.dtype == "string":
            elements[i] = _to_bytes(name, element, max_characters)
    if spec.dtype != "string":
        try:
            with np.errstate(over="raise"):
                array = array.astype(spec.dtype)
        except (OverflowError, FloatingPointError) as error:
            raise InputError(
                f"{name} must have values of {spec.dtype}. Received: "
                f"{value!r:.100}"
            ) from error
    return array


def _check_type(name: str, value: Any, dtype: str) -> None:
    if dtype == "string":
        is_valid = isinstance(value, str)
    elif dtype == "bool":
        is_valid = isinstance(value, bool)
    else:
        types = (int, float) if "float" in dtype else int
        # Booleans are integers in Python.
        is_valid = isinstance(value, types) and not isinstance(value, bool)
    if not is_valid:
        hint = ", or lists of the same length" * isinstance(value, list)
        raise InputError(
            f"{name} must be of type {dtype}{hint}. Received: {value!r:.100}"
        )


def _to_bytes(name: str, text: str, max_characters: int) -> bytes:
    if len(text) > max_characters:
        raise InputError(
            f"A text may have at most {max_characters:,} characters. Received: "
            f"{len(text):,} in {name}"
        )
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{name} must be valid Unicode. Received: {text!r:.100}"
        ) from error


# === Outputs ===


def _to_instances(arrays: served_signatures.Arrays, outputs: dict) -> list:
    lengths = {np.shape(array)[:1] for array in arrays.values()}
    if len(lengths) != 1 or lengths == {()}:
        raise InputError(
            "The outputs of this signature are not one per instance. Ask with "
            '"inputs" in place of "instances".'
        )
    rows = zip(*outputs.values(), strict=True)
    named = (dict(zip(outputs, row, strict=True)) for row in rows)
    return list(map(_without_single_name, named))


def _without_single_name(values: dict[str, Any]) -> Any:
    """Returns values by name, or the only one without its name."""
    return next(iter(values.values())) if len(values) == 1 else values
