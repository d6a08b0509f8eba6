"""Finds and reads the files of another system's model."""

import contextlib
import functools
import json
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from keras_transformer.convert import torch_files
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import explain_missing_packages

# Names that safetensors has for dtypes.
_DTYPES = {
    f"{letter}{8 * size}": np.dtype(f"<{kind}{size}")
    for letter, kind in (("F", "f"), ("I", "i"), ("U", "u"))
    for size in (1, 2, 4, 8)
    if (kind, size) != ("f", 1)
}
_DTYPES |= {"BF16": np.dtype(ml_dtypes.bfloat16), "BOOL": np.dtype(bool)}


def inside(folder: str | os.PathLike, name: str) -> Path:
    """Returns the path of a file of a model's folder.

    Raises:
        InputError: If the file does not exist, or is outside the folder, by
            its name or as a link. In the cache of Hugging Face, where the
            files of a model are links, it must be in the model's part of it.
    """
    path, root = Path(folder, name), Path(os.path.realpath(folder))
    # CACHE/models--OWNER--NAME/snapshots/REVISION links to ../../blobs/HASH.
    caches = (x for x in root.parents if x.name.startswith("models--"))
    root = next(caches, root)
    found = Path(os.path.realpath(path))  # `resolve` raises for a loop of links
    if not found.is_relative_to(root):
        raise InputError(
            f"{path} must be a file inside {root}. Received: {found}. Copy it "
            "into the folder if you trust it."
        )
    if not path.is_file():
        raise InputError(f"{folder} must have the file {name}. Received: none")
    return path


def read_object(folder: Path, name: str) -> dict[str, Any]:
    """Returns the JSON object in a file of a model's folder.

    Raises:
        InputError: As in `inside`, and if the file has anything else.
    """
    path = inside(folder, name)
    try:
        values = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path} must be valid JSON. Received: {error}"
        ) from error
    if not isinstance(values, dict):
        raise InputError(
            f"{path} must be a JSON object. Received: {type(values).__name__}"
        )
    return values


def checked(file: Path | str, make: Callable, **values: Any) -> Any:
    """Returns an object made of what a file says.

    Raises:
        InputError: If the class refuses a value; the message names the file.
    """
    try:
        return make(**values)
    except InputError as error:
        raise InputError(f"{file} has invalid values. {error}") from error


def read_tensors(file: str | os.PathLike) -> Mapping[str, np.ndarray]:
    """Returns the tensors of a file of safetensors, PyTorch or NumPy by name.

    The content says which of them a file is, but NumPy's end in `.npz`.
    Nothing in it is executed. A tensor is read when it is asked for and not
    kept, so that what reads one after the other needs memory for one; only
    those of NumPy are not mapped. Tensors of bfloat16 have the dtype of
    `ml_dtypes`.

    Raises:
        InputError: If the file is damaged, or has anything but tensors.
    """
    file = Path(file)
    with open(file, "rb") as opened:
        start = opened.read(64)
    with _explained(file):
        if file.suffix == ".npz":
            readers = _npz_readers(file)
        elif start.startswith(torch_files.ZIP):
            readers = torch_files.read_zip(file)
        elif start.startswith(torch_files.LEGACY):
            readers = torch_files.read_legacy(file)
        elif start[8:9] == b"{":  # after the length of a header
            readers = _safetensors_readers(file)
        elif start.startswith(b"version https://git-lfs"):
            raise ValueError("a pointer to the file; run: git lfs pull")
        else:
            raise ValueError(f"a file that begins with {start[:16]!r}")
    return _Tensors(file, readers)


class _Tensors(Mapping[str, np.ndarray]):
    def __init__(self, file: Path, readers: torch_files.Readers):
        self._file = file
        self._readers = readers

    def __getitem__(self, name: str) -> np.ndarray:
        read = self._readers[name]
        with _explained(self._file):
            return read()

    def __contains__(self, name: object) -> bool:
        return name in self._readers  # without reading it

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


@contextlib.contextmanager
def _explained(file: Path) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    # For a damaged file zipfile and NumPy raise errors of many types.
    except Exception as error:
        problem = str(error)
        if not isinstance(error, ValueError):
            problem = f"{type(error).__name__}: {problem}"
        raise InputError(
            f"{file} must be a file of tensors, complete and with nothing "
            f"else, from safetensors, PyTorch or NumPy. Received: {problem}. "
            "Download it again, or have PyTorch save it as safetensors."
        ) from error


def _safetensors_readers(file: Path) -> torch_files.Readers:
    with explain_missing_packages(InputError):
        from safetensors import safe_open

    with safe_open(file, "np") as opened:  # which checks the header
        metadata = opened.metadata() or {}
    with open(file, "rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        header = json.loads(opened.read(length))
    header.pop("__metadata__", None)

    def read(name: str) -> np.ndarray:
        entry = header[name]
        if entry["dtype"] not in _DTYPES:
            raise ValueError(f"{name!r:.80} of type {entry['dtype']}")
        dtype, shape = _DTYPES[entry["dtype"]], tuple(entry["shape"])
        start, end = entry["data_offsets"]
        if start == end:
            return np.zeros(shape, dtype)
        return np.memmap(file, dtype, "r", 8 + length + start, shape)

    names = {name: name for name in header}
    # Tied tensors are stored once; the others have an entry here.
    names |= {
        alias: name
        for alias, name in metadata.items()
        if name in header and alias not in header
    }
    return {
        name: functools.partial(read, stored) for name, stored in names.items()
    }


def _npz_readers(file: Path) -> torch_files.Readers:
    def read(name: str) -> np.ndarray:
        with np.load(file, allow_pickle=False) as arrays:
            return arrays[name]

    with zipfile.ZipFile(file) as archive:
        # What takes little of a file could take all memory.
        if any(entry.compress_type for entry in archive.infolist()):
            raise ValueError("compressed arrays; store them with numpy.savez")
    with np.load(file, allow_pickle=False) as arrays:
        return {name: functools.partial(read, name) for name in arrays.files}


def read_yaml(content: bytes | Path, file: Path | str | None = None) -> Any:
    """Returns the value of a YAML file, which may have no aliases.

    Args:
        content: The file, or what is in it.
        file: What a message calls it. Default: `content`, a path.

    Raises:
        InputError: If it is anything else.
    """
    with explain_missing_packages(InputError):
        import yaml
    file = file or content
    if isinstance(content, Path):
        content = content.read_bytes()
    try:
        # Aliases of aliases make a value of any length of a few bytes.
        if any(isinstance(x, yaml.AliasToken) for x in yaml.scan(content)):
            raise ValueError("an alias; write its value in its place")
        return yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{file} must be YAML. Received: {error}") from error
