"""A file of weights that has changed since it was written."""

import h5py
import numpy as np
import pytest

from keras_transformer.inference.weight_files import (
    check_checksum,
    write_checksum,
)


@pytest.fixture
def file(tmp_path):
    with h5py.File(tmp_path / "a.weights.h5", "w") as file:
        file["layer/kernel"] = np.arange(6.0).reshape(2, 3)
        file["layer/bias"] = np.zeros(3)
        file.attrs["step"] = 7
        write_checksum(file)
        check_checksum(file)
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
    with pytest.raises(ValueError, match="SHA-256"):
        check_checksum(file)
