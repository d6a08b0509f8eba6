"""Writes files of weights by hand: safetensors, PyTorch's two layouts."""

import json
import struct
import zipfile

import ml_dtypes
import numpy as np

from keras_transformer.convert import torch_files

KINDS = {
    dtype.name: name.partition(".")[2]
    for name, dtype in torch_files.DTYPES.items()
}


class Code(bytes):
    """A part of a pickle, written as it is."""


def pickled(value):
    """Returns the pickle of a plain value, parts of which may be `Code`."""
    return b"\x80\x02" + code(value) + b"."


def code(value):
    match value:
        case Code():
            return value
        case None | bool():
            return {None: b"N", True: b"\x88", False: b"\x89"}[value]
        case int() if -(2**31) <= value < 2**31:
            return b"J" + struct.pack("<i", value)
        case int():
            return b"\x8a\x0c" + value.to_bytes(12, "little", signed=True)
        case str():
            encoded = value.encode()
            return b"X" + struct.pack("<I", len(encoded)) + encoded
        case tuple():
            return b"(" + b"".join(map(code, value)) + b"t"
        case [item]:
            return b"]" + code(item) + b"a"
        case list():
            return b"](" + b"".join(map(code, value)) + b"e"
        case dict():
            return b"}" + items(value)


def items(values):
    pairs = b"".join(code(k) + code(v) for k, v in values.items())
    return pairs + b"s" if len(values) == 1 else b"(" + pairs + b"u"


def named(module, name):
    return Code(f"c{module}\n{name}\n".encode())


def called(module, name, *arguments):
    return Code(named(module, name) + code(arguments) + b"R")


def storage(dtype, key, size, *view):
    kind = named("torch", KINDS[dtype])
    return Code(code(("storage", kind, key, "cuda:0", size, *view)) + b"Q")


def tensor(storage, offset, shape, strides):
    hooks = called("collections", "OrderedDict")
    return called(
        "torch._utils",
        "_rebuild_tensor_v2",
        *(storage, offset, shape, strides, False, hooks),
    )


def parameter(tensor):
    hooks = called("collections", "OrderedDict")
    return called("torch._utils", "_rebuild_parameter", tensor, True, hooks)


def write_zip(path, state, numbers, *, pickle="data.pkl"):
    """Writes the layout of today, with the numbers of storages by key."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"model/{pickle}", pickled(state))
        archive.writestr("model/byteorder", b"little")
        for key, array in numbers.items():
            archive.writestr(f"model/data/{key}", array.tobytes())


def write_legacy(path, state, numbers):
    """Writes the layout before PyTorch 1.6."""
    system = {"protocol_version": 1001, "little_endian": True}
    with open(path, "wb") as file:
        file.write(torch_files.LEGACY)
        for value in (1001, system, state, list(numbers)):
            file.write(pickled(value))
        for array in numbers.values():
            file.write(struct.pack("<q", array.size) + array.tobytes())


def write_safetensors(path, header, data=b"", length=None):
    """Writes a header, of JSON or bytes, of this length or another."""
    if not isinstance(header, bytes):
        header = json.dumps(header).encode()
    length = len(header) if length is None else length
    path.write_bytes(struct.pack("<Q", length) + header + data)


NUMBERS = {
    "0": np.arange(12, dtype="float32") / 8,
    "94": np.array([1.5, -2], "float16"),
    "2": np.array([0.25, 3], ml_dtypes.bfloat16),
    "3": np.array([2**40, -1]),
    "4": np.zeros(0, "float32"),
}


def example_state(*view):
    """Returns the pickled tensors of `NUMBERS`, and their values."""
    stored = {
        key: storage(array.dtype.name, key, array.size, *view)
        for key, array in NUMBERS.items()
    }
    # As PyTorch writes it: a storage that was mentioned is taken from memory.
    shared = Code(stored["0"] + b"q\x05")
    again = Code(b"h\x05")
    matrix = NUMBERS["0"].reshape(3, 4)
    state = {
        "matrix": tensor(shared, 0, (3, 4), (4, 1)),
        "tied": tensor(again, 0, (3, 4), (4, 1)),
        "transposed": tensor(again, 0, (4, 3), (1, 4)),
        "part": tensor(again, 5, (2, 2), (4, 2)),
        "number": tensor(again, 7, (), ()),
        "half": parameter(tensor(stored["94"], 0, (2,), (1,))),
        "bfloat16": tensor(stored["2"], 0, (1, 2), (2, 1)),
        "long": tensor(stored["3"], 0, (2,), (1,)),
        "empty": tensor(stored["4"], 0, (0, 3), (3, 1)),
    }
    expected = {
        "matrix": matrix,
        "tied": matrix,
        "transposed": matrix.T,
        "part": matrix[1:, 1::2],
        "number": NUMBERS["0"][7],
        "half": NUMBERS["94"],
        "bfloat16": NUMBERS["2"][None],
        "long": NUMBERS["3"],
        "empty": np.zeros((0, 3), "float32"),
    }
    ordered = called("collections", "OrderedDict") + items(state)
    metadata = {"_metadata": {"": {"version": 1}}}
    return Code(ordered + code(metadata) + b"b"), expected
