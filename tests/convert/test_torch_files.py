"""PyTorch's files, written without it; reference/ reads PyTorch's own."""

import collections
import io
import os
import pickle
import struct
import sys
import types
import zipfile
from unittest import mock

import ml_dtypes
import numpy as np
import pytest

from keras_transformer.convert import torch_files
from keras_transformer.convert.tensor_files import read_tensors
from keras_transformer.support.errors import InputError

NUMBERS = {
    "0": np.arange(12, dtype="float32") / 8,
    "94": np.array([1.5, -2], "float16"),
    "2": np.array([0.25, 3], ml_dtypes.bfloat16),
    "3": np.array([2**40, -1]),
    "4": np.zeros(0, "float32"),
}


def global_of(module, name):
    """Returns a class that a pickle stores as a module and a name."""
    return type(name, (), {"__module__": module, "__qualname__": name})


TORCH = {
    name: global_of(*name.rsplit(".", 1))
    for name in (
        *torch_files.DTYPES,
        "torch._utils._rebuild_tensor_v2",
        "torch._utils._rebuild_parameter",
    )
}
KINDS = {dtype.name: name for name, dtype in torch_files.DTYPES.items()}


class Call:
    """Is pickled as the call of a function."""

    def __init__(self, function, *arguments):
        self.reduced = TORCH.get(function, function), arguments

    def __reduce__(self):
        return self.reduced


class Storage:
    """Is pickled as a persistent id."""

    def __init__(self, key, size=None, dtype=None):
        dtype = dtype or NUMBERS[key].dtype.name
        size = NUMBERS[key].size if size is None else size
        self.id = ("storage", TORCH[KINDS[dtype]], key, "cuda:0", size)


class TorchPickler(pickle.Pickler):
    def persistent_id(self, value):
        return value.id if isinstance(value, Storage) else None


def tensor(storage, offset, shape, strides):
    arguments = (offset, shape, strides, False, collections.OrderedDict())
    return Call("torch._utils._rebuild_tensor_v2", storage, *arguments)


def pickled(value):
    modules = {"torch": types.ModuleType("torch")}
    modules["torch._utils"] = types.ModuleType("torch._utils")
    for name, cls in TORCH.items():
        module, _, attribute = name.rpartition(".")
        setattr(modules[module], attribute, cls)
    stream = io.BytesIO()
    with mock.patch.dict(sys.modules, modules):
        TorchPickler(stream, 2).dump(value)
    return stream.getvalue()


def write_zip(path, state, numbers):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", pickled(state))
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


@pytest.fixture(params=[write_zip, write_legacy], ids=["zip", "legacy"])
def write(request, tmp_path):
    """Writes a file in one layout, with the storage "0" by default."""

    def write(state, numbers=None):
        path = tmp_path / "pytorch_model.bin"
        request.param(path, state, numbers or {"0": NUMBERS["0"]})
        return path

    return write


def error_of(path):
    """Returns why a file cannot be read."""
    with pytest.raises(InputError, match=str(path)) as caught:
        tensors = read_tensors(path)
        for name in tensors:
            tensors[name]
    return str(caught.value).partition("Received: ")[2]


FLOATS = Storage("0")
GOOD = tensor(FLOATS, 0, (3, 4), (4, 1))


def test_every_tensor_has_its_values(write):
    matrix = NUMBERS["0"].reshape(3, 4)
    half = tensor(Storage("94"), 0, (2,), (1,))
    hooks = collections.OrderedDict()
    cases = {
        "matrix": (GOOD, matrix),
        "transposed": (tensor(FLOATS, 0, (4, 3), (1, 4)), matrix.T),
        "part": (tensor(FLOATS, 5, (2, 2), (4, 2)), matrix[1:, 1::2]),
        "number": (tensor(FLOATS, 7, (), ()), NUMBERS["0"][7]),
        "half": (
            Call("torch._utils._rebuild_parameter", half, True, hooks),
            NUMBERS["94"],
        ),
        "bfloat16": (
            tensor(Storage("2"), 0, (1, 2), (2, 1)),
            NUMBERS["2"][None],
        ),
        "long": (tensor(Storage("3"), 0, (2,), (1,)), NUMBERS["3"]),
        "empty": (
            tensor(Storage("4"), 0, (0, 3), (3, 1)),
            np.zeros((0, 3), "float32"),
        ),
    }
    state = collections.OrderedDict((k, x) for k, (x, _) in cases.items())
    tensors = read_tensors(write(state, NUMBERS))
    assert list(tensors) == list(cases)
    for name, (_, expected) in cases.items():
        assert tensors[name].dtype == expected.dtype, name
        np.testing.assert_array_equal(tensors[name], expected)


def test_nothing_is_executed(write, tmp_path):
    marker = tmp_path / "executed"
    command = f"echo > {marker}"
    attacks = [
        Call(os.system, command),
        Call(eval, command),
        Call(getattr, GOOD, "read"),
        Call(collections.OrderedDict.fromkeys, "a"),
    ]
    for attack in attacks:
        for state in (attack, {"w": GOOD, "x": attack}):
            assert "names" in error_of(write(state))
            assert not marker.exists()


@pytest.mark.parametrize(
    "state",
    [
        [GOOD],
        {"w": {"x": GOOD}},
        {"w": GOOD, "step": 3},
        {"w": Call("torch._utils._rebuild_parameter", 3)},
        {"w": FLOATS},
        {"w": tensor(FLOATS, 1, (3, 4), (4, 1))},
        {"w": tensor(FLOATS, 0, (3, 4), (5, 1))},
        {"w": tensor(FLOATS, 0, (10**9,), (0,))},
        {"w": tensor(FLOATS, -1, (3,), (1,))},
        {"w": tensor(FLOATS, 11, (3,), (-1,))},
        {"w": tensor(FLOATS, 0, (-3,), (1,))},
        {"w": tensor(FLOATS, 0, ("3",), (1,))},
        {"w": tensor(FLOATS, 0, (3, 4), (1,))},
        {"w": tensor(Storage("0", 13), 0, (13,), (1,))},
        {"w": tensor(Storage("1", 12, "float32"), 0, (12,), (1,))},
    ],
)
def test_other_pickles(write, state):
    error_of(write(state))


def test_truncated_files(write):
    path = write({"w": GOOD})
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        error_of(path)
