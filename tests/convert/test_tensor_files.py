import sys

import ml_dtypes
import numpy as np
import pytest
from weight_files import write_safetensors

from keras_transformer.convert.tensor_files import read_tensors
from keras_transformer.support.errors import InputError

MATRIX = np.array([[1, 2, 3], [4, 5, 6]], "float32")
HALF = np.array([0.5, -2], "float16")
BFLOAT16 = np.array([0.25], ml_dtypes.bfloat16)
DATA = MATRIX.tobytes() + HALF.tobytes() + BFLOAT16.tobytes()


def entry(dtype, shape, start, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


HEADER = {
    "matrix": entry("F32", [2, 3], 0, 24),
    "half": entry("F16", [2], 24, 28),
    "bfloat16": entry("BF16", [1], 28, 30),
    "__metadata__": {"format": "pt"},
}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.safetensors"
    write_safetensors(path, HEADER, DATA)
    return path


def problem(path):
    with pytest.raises(InputError) as caught:
        read_tensors(path)
    assert str(path) in str(caught.value)
    return str(caught.value).partition("Received: ")[2]


def test_every_tensor_has_its_values(path):
    tensors = read_tensors(path)
    expected = dict(matrix=MATRIX, half=HALF, bfloat16=BFLOAT16)
    assert sorted(tensors) == sorted(expected)
    for name, array in expected.items():
        assert tensors[name].dtype == array.dtype
        np.testing.assert_array_equal(tensors[name], array)


def test_a_tensor_is_read_when_it_is_asked_for(path):
    tensors = read_tensors(path)
    changed = bytearray(path.read_bytes())
    changed[-2:] = np.array([7], ml_dtypes.bfloat16).tobytes()
    path.write_bytes(changed)
    assert tensors["bfloat16"] == 7
    path.write_bytes(changed[:-1])
    assert "bfloat16" in tensors and len(tensors) == 3
    with pytest.raises(InputError, match="model.safetensors must be"):
        tensors["bfloat16"]
    with pytest.raises(KeyError):
        tensors["other"]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (HEADER | {"half": entry("F16", [2], 24, 99)}, "offset"),
        (HEADER | {"half": entry("F16", [3], 24, 28)}, "invalid shape"),
        (b'{"matrix": [', "invalid JSON"),
    ],
)
def test_a_wrong_header_is_refused(path, header, expected):
    write_safetensors(path, header, DATA)
    assert expected in problem(path)


def test_files_of_another_kind_are_refused(path):
    for content, expected in {
        b"": "begins with b''",
        b"\x80\x04K\x01.": "begins with",  # any other pickle
        b"\x89HDF\r\n\x1a\n": "begins with",
        b"PK\x03\x04": "BadZipFile",
        b"version https://git-lfs.github.com/spec/v1\n": "git lfs pull",
    }.items():
        path.write_bytes(content)
        assert expected in problem(path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_numpy(tmp_path, save):
    path = tmp_path / "model.npz"
    save(path, w=MATRIX)
    np.testing.assert_array_equal(read_tensors(path)["w"], MATRIX)


def test_without_the_package_the_message_names_the_extra(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(InputError, match=r"nmt\[tensorflow\]"):
        read_tensors(path)
