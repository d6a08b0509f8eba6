"""Reads files of PyTorch's tensors without PyTorch.

A pickle says which tensors a file has and where their numbers are. `pickle`
would call what the file names, change attributes of it and reserve as much
memory as the file says. Here the operations that PyTorch writes for tensors are
carried out on plain values, and all others are refused.
"""

import functools
import io
import math
import mmap
import pickletools
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import ml_dtypes
import numpy as np

# How a file begins: as a zip archive, or, before PyTorch 1.6, with a pickle of
# a certain number.
ZIP = b"PK\x03\x04"
LEGACY = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."

_DTYPES = {
    "torch DoubleStorage": np.dtype("<f8"),
    "torch FloatStorage": np.dtype("<f4"),
    "torch HalfStorage": np.dtype("<f2"),
    "torch BFloat16Storage": np.dtype(ml_dtypes.bfloat16),
    "torch LongStorage": np.dtype("<i8"),
    "torch IntStorage": np.dtype("<i4"),
    "torch ShortStorage": np.dtype("<i2"),
    "torch CharStorage": np.dtype("<i1"),
    "torch ByteStorage": np.dtype("<u1"),
}
_GLOBALS = {
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter",
    *_DTYPES,
}


class _Storage(NamedTuple):
    """Numbers in a file. Several tensors may be views of them."""

    key: str
    dtype: np.dtype
    size: int


class _Tensor(NamedTuple):
    """A view of a storage; offset and strides count numbers, not bytes."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def extent(self) -> int:
        """The numbers from the first of the tensor to its last."""
        steps = zip(self.shape, self.strides, strict=True)
        return 1 + sum((size - 1) * stride for size, stride in steps)


Readers = dict[str, Callable[[], np.ndarray]]


def read_zip(file: Path) -> Readers:
    """Returns functions that map the tensors of a zip archive, by name.

    Raises:
        Exception: Of any type, if the file is damaged or has anything else.
    """
    with zipfile.ZipFile(file) as archive, open(file, "rb") as opened:
        entries = {entry.filename: entry for entry in archive.infolist()}
        roots = [name[:-8] for name in entries if name.endswith("data.pkl")]
        if len(roots) != 1:
            raise ValueError("a zip archive without a single data.pkl")
        root = roots[0]
        if any(
            entry.compress_type or entry.flag_bits & 1
            for entry in entries.values()
        ):
            raise ValueError("a zip archive that is compressed or encrypted")
        order = f"{root}byteorder"
        if order in entries and archive.read(order) != b"little":
            raise ValueError("numbers that are not little-endian")
        storages: dict[str, _Storage] = {}
        pickle = io.BytesIO(archive.read(f"{root}data.pkl"))
        state = _values(pickle, storages)
        positions = {}
        for key, (_, dtype, size) in storages.items():
            entry = entries.get(f"{root}data/{key}")
            if entry is None or entry.file_size != size * dtype.itemsize:
                raise ValueError(f"no entry data/{key} of {size} {dtype}")
            positions[key] = _start(opened, entry)
    return _readers(file, state, positions)


def read_legacy(file: Path) -> Readers:
    """Returns functions that map the tensors of a file before PyTorch 1.6.

    Raises:
        Exception: As in `read_zip`.
    """
    with (
        open(file, "rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        storages: dict[str, _Storage] = {}
        _, _, system, state, keys = (
            _values(content, storages) for _ in range(5)
        )
        if not (isinstance(system, dict) and system.get("little_endian")):
            raise ValueError("numbers that are not little-endian")
        _check_strings(keys)
        if sorted(keys) != sorted(storages):
            raise ValueError("other storages than its tensors have")
        position, positions = content.tell(), {}
        for key in keys:
            _, dtype, size = storages[key]
            (found,) = struct.unpack_from("<q", content, position)
            if found != size:
                raise ValueError(f"{found} numbers in storage {key}")
            positions[key] = position + 8
            position += 8 + size * dtype.itemsize
        if position > len(content):
            raise ValueError("a file that ends before its numbers do")
    return _readers(file, state, positions)


def _start(opened: BinaryIO, entry: zipfile.ZipInfo) -> int:
    """Returns where the bytes of a zip archive's entry begin."""
    opened.seek(entry.header_offset)
    # The name here is as long as in the archive's list, the rest may not be.
    mark, name, rest = struct.unpack("<4s22xHH", opened.read(30))
    start = entry.header_offset + 30 + name + rest
    if mark != ZIP or start + entry.file_size > opened.seek(0, io.SEEK_END):
        raise ValueError(f"a damaged entry {entry.filename!r:.80}")
    return start


def _readers(file: Path, state: Any, positions: Mapping[str, int]) -> Readers:
    if not isinstance(state, dict):
        raise ValueError(f"a {type(state).__name__} instead of tensors by name")
    for name, value in state.items():
        if not isinstance(value, _Tensor):
            kind = type(value).__name__
            raise ValueError(f"{name!r:.80}: a {kind} instead of a tensor")
    return {
        name: functools.partial(
            _array, file, positions[tensor.storage.key], tensor
        )
        for name, tensor in state.items()
    }


def _array(file: Path, position: int, tensor: _Tensor) -> np.ndarray:
    dtype = tensor.storage.dtype
    if 0 in tensor.shape:
        return np.zeros(tensor.shape, dtype)
    position += tensor.offset * dtype.itemsize
    numbers = np.memmap(file, dtype, "r", position, tensor.extent)
    strides = [stride * dtype.itemsize for stride in tensor.strides]
    return np.lib.stride_tricks.as_strided(
        numbers, tensor.shape, strides, subok=True, writeable=False
    )


def _values(pickle: Any, storages: dict[str, _Storage]) -> Any:
    """Returns what a pickle has, and adds its storages to `storages`."""
    stack: list[Any] = []
    below: list[list[Any]] = []  # the stacks before open marks
    memo: dict[int, Any] = {}
    for operation, argument, _ in pickletools.genops(pickle):
        match operation.name:
            case "PROTO" | "STOP":
                pass
            case "BININT" | "BININT1" | "BININT2" | "LONG1" | "BINUNICODE":
                stack.append(argument)
            case "NONE" | "NEWTRUE" | "NEWFALSE" as name:
                stack.append({"NEWTRUE": True, "NEWFALSE": False}.get(name))
            case "GLOBAL":
                if argument not in _GLOBALS:
                    raise ValueError(f"a pickle that names {argument!r:.80}")
                stack.append(argument)
            case "BINPUT" | "LONG_BINPUT":
                memo[argument] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case "MARK":
                below.append(stack)
                stack = []
            case "EMPTY_TUPLE":
                stack.append(())
            case "TUPLE1" | "TUPLE2" | "TUPLE3" as name:
                count = int(name[-1])
                stack[-count:] = [tuple(stack[-count:])]
            case "TUPLE":
                items, stack = stack, below.pop()
                stack.append(tuple(items))
            case "EMPTY_LIST":
                stack.append([])
            case "APPEND":
                item = stack.pop()
                stack[-1].append(item)
            case "APPENDS":
                items, stack = stack, below.pop()
                stack[-1].extend(items)
            case "EMPTY_DICT":
                stack.append({})
            case "SETITEM":
                items = [stack.pop(-2), stack.pop()]
                _set_items(stack[-1], items)
            case "SETITEMS":
                items, stack = stack, below.pop()
                _set_items(stack[-1], items)
            case "BINPERSID":
                storage = _storage(stack.pop())
                if storages.setdefault(storage.key, storage) != storage:
                    raise ValueError("a storage of two types or sizes")
                stack.append(storage)
            case "REDUCE":
                arguments = stack.pop()
                stack[-1] = _made(stack[-1], arguments)
            case "BUILD":
                stack.pop()  # versions of modules
            case name:
                raise ValueError(f"a pickle with the operation {name}")
    return stack.pop()


def _set_items(target: dict[str, Any], items: list[Any]) -> None:
    # Python crashes when it hashes tuples that are nested too deeply.
    _check_strings(items[::2])
    target.update(zip(items[::2], items[1::2], strict=True))


def _check_strings(names: list[Any]) -> None:
    if not all(isinstance(name, str) for name in names):
        raise ValueError("a pickle with names that are not strings")


def _storage(identifier: Any) -> _Storage:
    match identifier:
        # The older layout has a last part, which is None.
        case ("storage", str(kind), str(key), str(), int(size), *view) if (
            kind in _DTYPES and size >= 0 and view in ([], [None])
        ):
            return _Storage(key, _DTYPES[kind], size)
    raise ValueError("a pickle with a reference to something unknown")


def _made(function: Any, arguments: Any) -> Any:
    """Returns what a function of `_GLOBALS` would."""
    match function, arguments:
        case "collections OrderedDict", ():
            return {}
        case "torch._utils _rebuild_parameter", (_Tensor() as tensor, *_):
            return tensor
        case (
            "torch._utils _rebuild_tensor_v2",
            (_Storage() as storage, offset, tuple(shape), tuple(strides), *_),
        ):
            return _tensor(_Tensor(storage, offset, shape, strides))
    raise ValueError(f"a pickle with wrong arguments of {function!r:.80}")


def _tensor(tensor: _Tensor) -> _Tensor:
    """Checks that a tensor lies in its storage."""
    storage, offset, shape, strides = tensor
    if not (
        len(shape) == len(strides) <= 32
        and all(
            isinstance(x, int) and x >= 0 for x in (offset, *shape, *strides)
        )
    ):
        raise ValueError("a tensor with a wrong offset, shape or strides")
    # A stride of 0 would make large tensors of few numbers.
    count = math.prod(shape)
    if max(count, offset + tensor.extent if count else 0) > storage.size:
        raise ValueError(
            f"a tensor {list(shape)} that does not fit its storage of "
            f"{storage.size} numbers"
        )
    return tensor
