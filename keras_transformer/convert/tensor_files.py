"""Reads tensors from files of safetensors, PyTorch and NumPy."""

import collections
import functools
from pathlib import Path

import numpy as np

from keras_transformer.convert import torch_files
from keras_transformer.support import errors
from keras_transformer.support.startup import explain_missing_packages

explain_damage = functools.partial(
    errors.explain_damage,
    expected="a complete file that contains only tensors",
    advice="Download it again, or save it as safetensors.",
)


class LazyTensors(collections.UserDict):
    """Tensors by name. Each access calls the function that reads the tensor."""

    def __getitem__(self, name: str) -> np.ndarray:
        return self.data[name]()


def read_tensors(file: Path) -> LazyTensors:
    """Returns the tensors of a file by name.

    NumPy's format is recognized by the suffix `.npz`, the others by their
    content. Nothing in the file is executed. bfloat16 tensors have the dtype
    of `ml_dtypes`.
    """
    with open(file, "rb") as opened:
        start = opened.read(64)
    with explain_damage(file):
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
    readers = {x: explain_damage(file)(read) for x, read in readers.items()}
    return LazyTensors(readers)


def _safetensors_readers(file: Path) -> torch_files.Readers:
    with explain_missing_packages():
        from safetensors import safe_open

    def read(name: str) -> np.ndarray:
        with safe_open(file, "np") as tensors:
            return tensors.get_tensor(name)

    with safe_open(file, "np") as tensors:
        return {name: functools.partial(read, name) for name in tensors.keys()}


def _npz_readers(file: Path) -> torch_files.Readers:
    def read(name: str) -> np.ndarray:
        with file.open("rb") as raw, np.load(raw, allow_pickle=False) as arrays:
            return arrays[name]

    # NumPy leaves a damaged file open.
    with file.open("rb") as raw, np.load(raw, allow_pickle=False) as arrays:
        return {name: functools.partial(read, name) for name in arrays.files}
