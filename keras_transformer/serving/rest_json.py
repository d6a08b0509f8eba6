"""JSON of TensorFlow Serving's REST API to arrays, and back."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_transformer.inference import served_signatures
from keras_transformer.inference.served_signatures import Signature, TensorSpec
from keras_transformer.support.errors import InputError

MOST_TEXTS = 32  # of a request
_MOST_NESTING = 32  # that every release of NumPy can go through
_BODY = (
    'A request must be {"instances": ["...", ...]} or '
    '{"inputs": {"text": ["...", ...]}}, with the inputs of its '
    '"signature_name".'
)
_DTYPES = {
    "string": "DT_STRING",
    "bool": "DT_BOOL",
    "int32": "DT_INT32",
    "int64": "DT_INT64",
    "float16": "DT_HALF",
    "bfloat16": "DT_BFLOAT16",
    "float32": "DT_FLOAT",
    "float64": "DT_DOUBLE",
}


def describe_signature(name: str, signature: Signature) -> dict[str, Any]:
    """Returns a signature as the JSON of its protocol buffer."""
    return {
        "inputs": _describe_tensors(name, signature.inputs),
        "outputs": _describe_tensors(name, signature.outputs()),
        "method_name": "tensorflow/serving/predict",
        "defaults": {},
    }


def _describe_tensors(signature: str, specs: Mapping[str, TensorSpec]) -> dict:
    descriptions = {}
    for name, spec in specs.items():
        sizes = (-1 if size is None else size for size in spec.shape or ())
        dims = [{"size": str(size), "name": ""} for size in sizes]
        descriptions[name] = {
            "dtype": _DTYPES.get(spec.dtype, "DT_INVALID"),
            "tensor_shape": {"dim": dims, "unknown_rank": spec.shape is None},
            "name": f"{signature}_{name}:0",
        }
    return descriptions


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
    outputs = {name: _to_json(name, array) for name, array in arrays.items()}
    if "instances" in body:
        answer = {"predictions": _to_instances(arrays, outputs)}
    else:
        answer = {"outputs": _without_single_name(outputs)}
    # Like TensorFlow Serving, it writes -Infinity, which JSON lacks.
    return json.dumps(answer, ensure_ascii=False)


# === Inputs ===


def _is_base64(value: Any) -> bool:
    return isinstance(value, dict) and list(value) == ["b64"]


def _by_name(value: Any, names: list[str], place: str) -> dict[str, Any]:
    """Returns values by the names of inputs, of which one needs no name."""
    if len(names) == 1 and (not isinstance(value, dict) or _is_base64(value)):
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
    if _nesting(value) > _MOST_NESTING:
        raise _wrong_rank(name, _nesting(value), spec)
    array = np.array(value, object)  # lists of different lengths stay in it
    for index, element in np.ndenumerate(array):
        _check_type(name, element, spec.dtype)
        if spec.dtype == "string":
            array[index] = _to_bytes(name, element, max_characters)
    if spec.dtype != "string":
        try:
            with np.errstate(over="raise"):
                array = array.astype(spec.dtype)
        except (OverflowError, FloatingPointError) as error:
            raise InputError(
                f"{name} must have values of {spec.dtype}. Received: "
                f"{value!r:.100}"
            ) from error
    if spec.shape is not None and array.ndim != len(spec.shape):
        raise _wrong_rank(name, array.ndim, spec)
    return array


def _nesting(value: Any) -> int:
    """Returns how many lists the first value of nested lists is in."""
    depth = 0
    while isinstance(value, list) and value:
        depth, value = depth + 1, value[0]
    return depth


def _wrong_rank(name: str, rank: int, spec: TensorSpec) -> InputError:
    expected = _MOST_NESTING if spec.shape is None else len(spec.shape)
    where = ', which "inputs" can have only' if spec.shape == () else ""
    return InputError(
        f"{name} must be of rank {expected}{where}. Received: rank {rank}"
    )


def _check_type(name: str, value: Any, dtype: str) -> None:
    if dtype == "string":
        is_valid = isinstance(value, str) or _is_base64(value)
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


def _to_bytes(name: str, value: str | dict, max_characters: int) -> bytes:
    try:
        if isinstance(value, str):
            content, length = value.encode(), len(value)
        else:
            content = base64.b64decode(value["b64"], validate=True)
            length = len(content.decode("utf-8", "replace"))
    except (TypeError, ValueError) as error:
        raise InputError(
            f'{name} must be valid Unicode or {{"b64": "..."}}. Received: '
            f"{value!r:.100}"
        ) from error
    if length > max_characters:
        raise InputError(
            f"A text may have at most {max_characters:,} characters. Received: "
            f"{length:,} in {name}"
        )
    return content


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


def _to_json(name: str, array: np.ndarray) -> Any:
    array = np.asarray(array)
    values = array.tolist()
    if array.dtype != object:
        return values
    return _texts_to_json(values, name.endswith("_bytes"))


def _texts_to_json(value: Any, as_base64: bool) -> Any:
    if isinstance(value, list):
        return [_texts_to_json(item, as_base64) for item in value]
    content = value.encode() if isinstance(value, str) else value
    if as_base64:  # outputs with such names, as TensorFlow Serving does
        return {"b64": base64.b64encode(content).decode()}
    return content.decode("utf-8", "replace")


def _without_single_name(values: dict[str, Any]) -> Any:
    """Returns values by name, or the only one without its name."""
    return next(iter(values.values())) if len(values) == 1 else values
