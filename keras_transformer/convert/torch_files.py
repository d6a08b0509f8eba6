"""Reads PyTorch's files of tensors without PyTorch.

A pickle lists the tensors and the positions of their data. The unpickler
replaces the classes and functions that it names, except `OrderedDict`.
"""

import collections
import math
import pickle
import struct
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

# The first bytes of a zip archive, and of a file before PyTorch 1.6: a pickled
# number.
ZIP = b"PK\x03\x04"
LEGACY = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."

DTYPES = {
    "torch.DoubleStorage": np.dtype("<f8"),
    "torch.FloatStorage": np.dtype("<f4"),
    "torch.HalfStorage": np.dtype("<f2"),
    "torch.BFloat16Storage": np.dtype(ml_dtypes.bfloat16),
    "torch.LongStorage": np.dtype("<i8"),
    "torch.IntStorage": np.dtype("<i4"),
    "torch.ShortStorage": np.dtype("<i2"),
    "torch.CharStorage": np.dtype("<i1"),
    "torch.ByteStorage": np.dtype("<u1"),
}

Readers = dict[str, Callable[[], np.ndarray]]


class _Storage(NamedTuple):
    """An array in a file. Tensors are views of it."""

    dtype: np.dtype
    key: str


class _Tensor(NamedTuple):
    """A view of a storage: the first arguments of `_rebuild_tensor_v2`."""

    storage: _Storage
    offset: int  # in elements, as the strides
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _TensorUnpickler(pickle.Unpickler):
    """Unpickles tensors only."""

    def find_class(self, module: str, name: str) -> Any:
        match f"{module}.{name}":
            case "collections.OrderedDict":
                return collections.OrderedDict
            case "torch._utils._rebuild_tensor_v2":
                return lambda *arguments: _Tensor(*arguments[:4])
            case "torch._utils._rebuild_parameter":
                return lambda tensor, *_: tensor
            case path if path in DTYPES:
                return path
        raise ValueError(f"a pickle that names '{module}.{name}'")

    def persistent_load(self, identifier: Any) -> _Storage:
        _, storage_type, key, *_ = identifier
        return _Storage(DTYPES[storage_type], key)


def read_zip(file: Path) -> Readers:
    """Returns functions that read the tensors of a zip archive, by name."""
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        (name,) = (x for x in names if x.endswith("data.pkl"))
        with archive.open(name) as content:
            state = _TensorUnpickler(content).load()

    def read_storage(storage: _Storage) -> np.ndarray:
        entry = f"{name.removesuffix('.pkl')}/{storage.key}"
        with zipfile.ZipFile(file) as archive:
            if archive.getinfo(entry).compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{entry} is compressed")
            return np.frombuffer(archive.read(entry), storage.dtype)

    return {x: partial(_view, y, read_storage) for x, y in state.items()}


def read_legacy(file: Path) -> Readers:
    """Returns functions that map the tensors of a file before PyTorch 1.6."""
    places = {}
    with open(file, "rb") as opened:
        # The first three pickles are a number, a version and the system.
        *_, state, keys = (_TensorUnpickler(opened).load() for _ in range(5))
        dtypes = {x.storage.key: x.storage.dtype for x in state.values()}
        for key in keys:
            (size,) = struct.unpack("<q", opened.read(8))
            places[key] = opened.tell(), size
            opened.seek(size * dtypes[key].itemsize, 1)

    def map_storage(storage: _Storage) -> np.ndarray:
        position, size = places[storage.key]
        return np.memmap(file, storage.dtype, "r", position, (size,))

    return {x: partial(_view, y, map_storage) for x, y in state.items()}


def _view(
    tensor: _Tensor, read: Callable[[_Storage], np.ndarray]
) -> np.ndarray:
    dtype = tensor.storage.dtype
    if 0 in tensor.shape:
        return np.zeros(tensor.shape, dtype)
    numbers = read(tensor.storage)
    steps = zip(tensor.shape, tensor.strides, strict=True)
    end = tensor.offset + 1 + sum((n - 1) * stride for n, stride in steps)
    least = min(tensor.shape + tensor.strides + (tensor.offset,))
    # A stride of 0 could make a huge tensor from a small file.
    if least < 0 or max(end, math.prod(tensor.shape)) > len(numbers):
        raise ValueError("a tensor outside of its storage")
    numbers = numbers[tensor.offset :]
    strides = [stride * dtype.itemsize for stride in tensor.strides]
    return np.lib.stride_tricks.as_strided(
        numbers, tensor.shape, strides, subok=True, writeable=False
    )
