"""A file of weights that has changed since it was written."""

import os
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest

from keras_transformer.runs.weight_files import checksum


@pytest.fixture
def file(tmp_path):
    with h5py.File(tmp_path / "a.weights.h5", "w") as file:
        file["layer/kernel"] = np.arange(6.0).reshape(2, 3)
        file["layer/bias"] = np.zeros(3)
        file.attrs["step"] = 7
        file.attrs["sha256"] = checksum(file)
        assert file.attrs["sha256"] == checksum(file)
        yield file


def change_weight(file):
    file["layer/kernel"][1, 2] = 5.5


def rename_weight(file):
    file.move("layer/bias", "layer/a")  # in the same order


def change_step(file):
    file.attrs["step"] = 8


@pytest.mark.parametrize("change", [change_weight, rename_weight, change_step])
def test_changes_are_found(file, change):
    change(file)
    assert file.attrs["sha256"] != checksum(file)


NO_LOCKS = """
#include <errno.h>
int flock(int file, int operation) { errno = EOPNOTSUPP; return -1; }
"""
WRITE = """
import sys, keras_transformer, h5py
for mode in ("w", "a", "r"):
    h5py.File(sys.argv[1], mode).close()
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("cc"),
    reason="replaces a function of the C library",
)
def test_hdf5_needs_no_locks(tmp_path):
    source, library = tmp_path / "flock.c", tmp_path / "flock.so"
    source.write_text(NO_LOCKS)
    command = ["cc", "-shared", "-fPIC", source, "-o", library]
    subprocess.run(command, check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    environment.pop("HDF5_USE_FILE_LOCKING", None)
    command = [sys.executable, "-c", WRITE, tmp_path / "a.weights.h5"]
    subprocess.run(command, check=True, env=environment)
