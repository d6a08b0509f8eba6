"""Reads files of PyTorch's tensors without PyTorch.

A pickle says which tensors a file has and where their numbers are. `pickle`
would call what a file names, change attributes of it and reserve as much memory
as the file says. Here it gets only pickles with the operations that PyTorch
writes for tensors, and stand-ins for what they name.
"""

import dataclasses
import io
import math
import mmap
import pickle
import pickletools
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

# How a file begins: as a zip archive, or, before PyTorch 1.6, with a pickle of
# a certain number.
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
_GLOBALS = {
    "collections.OrderedDict",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_parameter",
    *DTYPES,
}
_OPERATIONS = set(
    """
    PROTO STOP MARK GLOBAL REDUCE BUILD BINPERSID NONE NEWTRUE NEWFALSE
    BININT BININT1 BININT2 LONG1 BINUNICODE BINPUT LONG_BINPUT BINGET
    LONG_BINGET EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_LIST APPEND APPENDS
    EMPTY_DICT SETITEM SETITEMS
    """.split()
)
# Python crashes when it hashes tuples that are nested 100,000 times. A tensor
# has about five.
_MAX_TUPLES = 10_000

Readers = dict[str, Callable[[], np.ndarray]]


def read_zip(file: Path) -> Readers:
    """Returns functions that map the tensors of a zip archive, by name."""
    with zipfile.ZipFile(file) as archive, open(file, "rb") as opened:
        entries = {entry.filename: entry for entry in archive.infolist()}
        roots = [name[:-8] for name in entries if name.endswith("data.pkl")]
        if len(roots) != 1:
            raise ValueError("a zip archive without a single data.pkl")
        root = roots[0]
        for entry in entries.values():
            if entry.compress_type or entry.flag_bits & 1:
                raise ValueError("a compressed or encrypted zip archive")
        order = f"{root}byteorder"
        if order in entries and archive.read(order) != b"little":
            raise ValueError("numbers that are not little-endian")
        content = io.BytesIO(archive.read(f"{root}data.pkl"))
        storages: dict[str, _Storage] = {}
        state = _unpickle(content, file, storages)
        for key, storage in storages.items():
            entry = entries.get(f"{root}data/{key}")
            size, dtype = storage.size, storage.dtype
            if entry is None or entry.file_size != size * dtype.itemsize:
                raise ValueError(f"no entry data/{key} of {size} {dtype}")
            storage.position = _start(opened, entry)
    return _readers(state)


def read_legacy(file: Path) -> Readers:
    """Returns functions that map the tensors of a file before PyTorch 1.6."""
    with (
        open(file, "rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        storages: dict[str, _Storage] = {}
        _, _, system, state, keys = (
            _unpickle(content, file, storages) for _ in range(5)
        )
        if not (isinstance(system, dict) and system.get("little_endian")):
            raise ValueError("numbers that are not little-endian")
        if sorted(keys) != sorted(storages):
            raise ValueError("other storages than its tensors have")
        position = content.tell()
        for key in keys:
            storage = storages[key]
            (size,) = struct.unpack_from("<q", content, position)
            if size != storage.size:
                raise ValueError(f"{size} numbers in storage {key}")
            storage.position = position + 8
            position += 8 + size * storage.dtype.itemsize
        if position > len(content):
            raise ValueError("a file that ends before its numbers do")
    return _readers(state)


def _start(opened: BinaryIO, entry: zipfile.ZipInfo) -> int:
    """Returns where the bytes of a zip archive's entry begin."""
    opened.seek(entry.header_offset)
    # The name is as long as in the archive's list, the rest may not be.
    mark, name, rest = struct.unpack("<4s22xHH", opened.read(30))
    start = entry.header_offset + 30 + name + rest
    if mark != ZIP or start + entry.file_size > opened.seek(0, io.SEEK_END):
        raise ValueError(f"a damaged entry {entry.filename!r:.80}")
    return start


def _readers(state: Any) -> Readers:
    if not isinstance(state, dict):
        raise ValueError(f"a {type(state).__name__} instead of tensors by name")
    for name, value in state.items():
        if not (isinstance(name, str) and isinstance(value, _Tensor)):
            type_name = type(value).__name__
            raise ValueError(f"{name!r:.80}: a {type_name}, not a tensor")
    return {name: tensor.read for name, tensor in state.items()}


# === Pickles ===


class _StandIn:
    """Stands for an object of a pickle, which must not change it."""

    def __setstate__(self, state: Any) -> None:
        raise ValueError("a pickle that changes its objects")


class _Global(_StandIn):
    """Stands for a class or a function."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *arguments: Any) -> Any:
        match self.name, arguments:
            case "collections.OrderedDict", ():
                return StateDict()
            case "torch._utils._rebuild_parameter", (_Tensor() as tensor, *_):
                return tensor
            case "torch._utils._rebuild_tensor_v2", (_Storage(), *_):
                return _Tensor(*arguments[:4])
        raise ValueError(f"a pickle with wrong arguments of {self.name!r}")


class StateDict(dict):
    """Stands for a dictionary of tensors."""

    def __setstate__(self, state: Any) -> None:
        """Ignores the versions of modules."""


@dataclasses.dataclass
class _Storage(_StandIn):
    """Numbers in a file. Several tensors may be views of them."""

    file: Path
    dtype: np.dtype
    size: int
    position: int = 0  # of the first byte; set when the pickle was read


@dataclasses.dataclass
class _Tensor(_StandIn):
    """A view of a storage; offset and strides count numbers, not bytes."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def __post_init__(self) -> None:
        """Checks that the tensor lies in its storage."""
        numbers = (self.offset, *self.shape, *self.strides)
        if not (
            len(self.shape) == len(self.strides) <= 32
            and all(isinstance(x, int) and x >= 0 for x in numbers)
        ):
            raise ValueError("a tensor with a wrong offset, shape or strides")
        # The numbers from the first of the tensor to its last.
        steps = zip(self.shape, self.strides, strict=True)
        self.extent = 1 + sum((size - 1) * stride for size, stride in steps)
        # A stride of 0 would make large tensors of few numbers.
        count = math.prod(self.shape)
        end = self.offset + self.extent if count else 0
        if max(count, end) > self.storage.size:
            raise ValueError(
                f"a tensor {list(self.shape)} that does not fit its storage "
                f"of {self.storage.size} numbers"
            )

    def read(self) -> np.ndarray:
        """Returns the numbers, which are mapped."""
        file, dtype = self.storage.file, self.storage.dtype
        if 0 in self.shape:
            return np.zeros(self.shape, dtype)
        position = self.storage.position + self.offset * dtype.itemsize
        numbers = np.memmap(file, dtype, "r", position, self.extent)
        strides = [stride * dtype.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(
            numbers, self.shape, strides, subok=True, writeable=False
        )


class _TensorUnpickler(pickle.Unpickler):
    """Unpickles descriptions of tensors, and refuses anything else."""

    def __init__(
        self, content: bytes, file: Path, storages: dict[str, _Storage]
    ) -> None:
        super().__init__(io.BytesIO(content))
        self._file = file
        self._storages = storages

    def find_class(self, module: str, name: str) -> "_Global":
        name = f"{module}.{name}"
        if name not in _GLOBALS:
            raise ValueError(f"a pickle that names {name!r:.80}")
        return _Global(name)

    def persistent_load(self, identifier: Any) -> _Storage:
        match identifier:
            # The older layout has a last part, which is None.
            case (
                "storage",
                _Global(name=name),
                str(key),
                str(),
                int(size),
                *view,
            ) if name in DTYPES and size >= 0 and view in ([], [None]):
                storage = _Storage(self._file, DTYPES[name], size)
                if self._storages.setdefault(key, storage) != storage:
                    raise ValueError("a storage of two types or sizes")
                return self._storages[key]
        raise ValueError("a pickle with a reference to something unknown")


def _unpickle(content: Any, file: Path, storages: dict[str, _Storage]) -> Any:
    """Returns what the next pickle has, and adds its storages to `storages`."""
    start, num_tuples = content.tell(), 0
    for operation, argument, position in pickletools.genops(content):
        if operation.name not in _OPERATIONS:
            raise ValueError(f"a pickle with the operation {operation.name}")
        # `pickle` reserves memory for all places before this one.
        if operation.name == "LONG_BINPUT" and argument > position:
            raise ValueError(f"a pickle that remembers {argument} values")
        num_tuples += operation.name.startswith("TUPLE")
        if num_tuples > _MAX_TUPLES:
            raise ValueError(f"a pickle with more than {_MAX_TUPLES} tuples")
    length = content.tell() - start
    content.seek(start)
    return _TensorUnpickler(content.read(length), file, storages).load()
