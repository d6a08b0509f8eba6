"""The REST API of TensorFlow Serving, for trying a client without a server.

Requests and answers have the shapes of
https://www.tensorflow.org/tfx/serving/api_rest; messages of errors are ours.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer.inference.signatures import (
    Arrays,
    Signature,
    TensorSpec,
)
from keras_transformer.support.errors import InputError

if TYPE_CHECKING:
    from fastapi import APIRouter, Request

MOST_TEXTS = 32  # of a request
BYTES_PER_CHARACTER = 12  # at most, in JSON: two escapes of UTF-16
_BYTES_AROUND = 2**16  # names, brackets and spaces around the texts
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


class TooLargeError(InputError):
    """Raised when a body is larger than any valid one."""


def make_router(
    name: str,
    version: int,
    signatures: Mapping[str, Signature],
    max_characters: int,
) -> "APIRouter":
    """Returns the addresses under `/v1/models/NAME`.

    They are the status of the model, `/metadata`, and `:predict`, each also
    under `/versions/VERSION`. Signatures are called in threads. For the first
    `/metadata` of a run all its signatures are traced, which takes seconds.

    Args:
        name: Name of the model.
        version: Its version.
        signatures: What can be asked for, by name.
        max_characters: Length of the longest text that is accepted.
    """
    from fastapi import APIRouter, Request, Response
    from fastapi.concurrency import run_in_threadpool

    router = APIRouter()
    most_bytes = (
        2 * MOST_TEXTS * max_characters * BYTES_PER_CHARACTER + _BYTES_AROUND
    )

    def status() -> dict[str, Any]:
        state = {
            "version": str(version),
            "state": "AVAILABLE",
            "status": {"error_code": "OK", "error_message": ""},
        }
        return {"model_version_status": [state]}

    def metadata() -> dict[str, Any]:
        return {
            "model_spec": {
                "name": name,
                "signature_name": "",
                "version": str(version),
            },
            "metadata": {
                "signature_def": {
                    "signature_def": {
                        x: _described(x, one) for x, one in signatures.items()
                    }
                }
            },
        }

    # As TensorFlow Serving, it reads the body as JSON whatever its type is.
    async def predict(request: Request) -> Response:
        content = await read_body(request, most_bytes)
        answer = await run_in_threadpool(
            _answer, content, signatures, max_characters
        )
        return Response(answer, media_type="application/json")

    model = f"/v1/models/{name}"
    for path in (model, f"{model}/versions/{version}"):
        router.add_api_route(path, status)
        router.add_api_route(f"{path}/metadata", metadata)
        router.add_api_route(f"{path}:predict", predict, methods=["POST"])
    return router


async def read_body(request: "Request", most_bytes: int) -> bytes:
    """Returns the body of a request.

    Raises:
        TooLargeError: If it is larger.
        InputError: If the client leaves before its end.
    """
    from starlette.requests import ClientDisconnect

    content = bytearray()
    try:
        async for part in request.stream():
            content += part
            if len(content) > most_bytes:
                raise TooLargeError(
                    f"A request may have at most {most_bytes:,} bytes. "
                    "Received: more"
                )
    except ClientDisconnect as error:  # nobody reads the answer
        raise InputError("The request is incomplete.") from error
    return bytes(content)


def _described(name: str, signature: Signature) -> dict[str, Any]:
    """Returns a signature as the JSON of its protocol buffer."""

    def tensor(x: str, spec: TensorSpec) -> dict[str, Any]:
        dims = [
            {"size": str(-1 if size is None else size), "name": ""}
            for size in spec.shape or ()
        ]
        shape = {"dim": dims, "unknown_rank": spec.shape is None}
        return {
            "dtype": _DTYPES.get(spec.dtype, "DT_INVALID"),
            "tensor_shape": shape,
            "name": f"{name}_{x}:0",
        }

    return {
        "inputs": {x: tensor(x, y) for x, y in signature.inputs.items()},
        "outputs": {x: tensor(x, y) for x, y in signature.outputs().items()},
        "method_name": "tensorflow/serving/predict",
        "defaults": {},
    }


def _answer(
    content: bytes, signatures: Mapping[str, Signature], max_characters: int
) -> str:
    """Returns the answer to the body of a request, as JSON."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{_BODY} Received: invalid JSON: {error}") from error
    if not isinstance(body, dict):
        raise _refused("another value than an object", body)
    name = body.get("signature_name", "")
    if name == "":
        name = "serving_default"
    if not isinstance(name, str) or name not in signatures:
        raise InputError(
            "The signature_name must be one of "
            f"{', '.join(signatures)}. Received: {name!r:.100}"
        )
    if ("instances" in body) == ("inputs" in body):
        raise _refused('not one of "instances" and "inputs"', sorted(body))
    signature, by_row = signatures[name], "instances" in body
    if by_row:
        columns = _columns_of_rows(body["instances"], list(signature.inputs))
    else:
        columns = _named(body["inputs"], list(signature.inputs), "inputs")
    arrays = {
        x: _array(x, columns[x], spec, max_characters)
        for x, spec in signature.inputs.items()
    }
    found = signature.call(arrays)
    if by_row:
        answer = {"predictions": _rows(found)}
    else:
        values = {x: _values(x, array) for x, array in found.items()}
        answer = {"outputs": _alone(values)}
    # Like TensorFlow Serving, it writes -Infinity, which JSON lacks.
    return json.dumps(answer, ensure_ascii=False)


# === Inputs ===


def _refused(problem: str, value: Any) -> InputError:
    return InputError(f"{_BODY} Received: {problem}: {value!r:.100}")


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and list(value) != ["b64"]


def _named(value: Any, names: list[str], where: str) -> dict[str, Any]:
    """Returns values by the names of inputs, of which one needs no name."""
    if not _is_named(value) and len(names) == 1:
        return {names[0]: value}
    if not isinstance(value, dict) or not set(names) <= set(value):
        raise InputError(
            f"{where} must have a value for each of {', '.join(names)}. "
            f"Received: {value!r:.100}"
        )
    return value


def _columns_of_rows(rows: Any, names: list[str]) -> dict[str, list]:
    if not isinstance(rows, list) or not rows:
        raise InputError(
            f"instances must be a list with values. Received: {rows!r:.100}"
        )
    named = [
        _named(row, names, f"instances[{i}]") for i, row in enumerate(rows)
    ]
    # TensorFlow Serving ignores further names in "inputs", but not here.
    if any(set(row) != set(names) for row in named) or (
        len(set(map(_is_named, rows))) > 1
    ):
        raise InputError(
            f"instances must all be objects with {', '.join(names)} and "
            "nothing else, or all be plain values of a single input. "
            f"Received: {rows!r:.100}"
        )
    return {name: [row[name] for row in named] for name in names}


def _array(
    name: str, value: Any, spec: TensorSpec, max_characters: int
) -> np.ndarray:
    def leaf(one: Any) -> Any:
        if isinstance(one, list):
            return [leaf(x) for x in one]
        is_text = isinstance(one, str) or (
            isinstance(one, dict) and list(one) == ["b64"]
        )
        if spec.dtype == "string" and is_text:
            return _text(name, one, max_characters)
        kinds = {"string": (), "bool": bool}.get(
            spec.dtype, (int, float) if "float" in spec.dtype else int
        )
        # Booleans are integers in Python.
        if not isinstance(one, kinds) or isinstance(one, bool) is not (
            spec.dtype == "bool"
        ):
            raise InputError(
                f"{name} must be of type {spec.dtype}. Received: {one!r:.100}"
            )
        return one

    if isinstance(value, list) and len(value) > MOST_TEXTS:
        raise InputError(
            f"A request may have at most {MOST_TEXTS} texts. Received: "
            f"{len(value)} values of {name}"
        )
    try:
        dtype = object if spec.dtype == "string" else spec.dtype
        array = np.array(leaf(value), dtype)
        if any(isinstance(one, list) for one in array.flat):
            raise ValueError("lists of different lengths")
    except InputError:
        raise
    except (ValueError, OverflowError, RecursionError) as error:
        raise InputError(
            f"{name} must have values of {spec.dtype} in lists of the same "
            f"length. Received: {value!r:.100}"
        ) from error
    if spec.shape is not None and array.ndim != len(spec.shape):
        raise InputError(
            f"{name} must be of rank {len(spec.shape)}"
            + ("" if spec.shape else ', which "inputs" can have only')
            + f". Received: rank {array.ndim}"
        )
    return array


def _text(name: str, value: str | dict[str, Any], most: int) -> bytes:
    try:
        if isinstance(value, str):
            content = value.encode()
            length = len(value)
        else:
            content = base64.b64decode(value["b64"], validate=True)
            length = len(content.decode("utf-8", "replace"))
    except (UnicodeEncodeError, binascii.Error, TypeError, ValueError) as error:
        raise InputError(
            f'{name} must be valid Unicode or {{"b64": "..."}}. Received: '
            f"{value!r:.100}"
        ) from error
    if length > most:
        raise InputError(
            f"A text may have at most {most:,} characters. Received: "
            f"{length:,} in {name}"
        )
    return content


# === Outputs ===


def _values(name: str, array: np.ndarray) -> Any:
    def text(one: Any) -> Any:
        if isinstance(one, list):
            return [text(x) for x in one]
        if isinstance(one, str):
            one = one.encode()
        if name.endswith("_bytes"):  # as TensorFlow Serving marks them
            return {"b64": base64.b64encode(one).decode()}
        return one.decode("utf-8", "replace")

    values = np.asarray(array).tolist()
    return text(values) if np.asarray(array).dtype == object else values


def _alone(values: dict[str, Any]) -> Any:
    """Returns values by name, or the only one."""
    return next(iter(values.values())) if len(values) == 1 else values


def _rows(found: Arrays) -> list:
    sizes = {np.shape(array)[:1] for array in found.values()}
    if len(sizes) != 1 or sizes == {()}:
        raise InputError(
            "The outputs of this signature are not one per instance. Ask with "
            '"inputs" in place of "instances".'
        )
    columns = [_values(name, array) for name, array in found.items()]
    return [
        _alone(dict(zip(found, row, strict=True)))
        for row in zip(*columns, strict=True)
    ]
