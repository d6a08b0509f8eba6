import sys

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from keras_transformer.convert.tensor_files import read_tensors
from keras_transformer.support.errors import InputError

TENSORS = {
    "matrix": np.array([[1, 2, 3], [4, 5, 6]], "float32"),
    "half": np.array([0.5, -2], "float16"),
    "bfloat16": np.array([0.25], ml_dtypes.bfloat16),
    "empty": np.zeros((0, 3), "float32"),
}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file(TENSORS, path, {"format": "pt"})
    return path


def test_every_tensor_has_its_values(path):
    tensors = read_tensors(path)
    assert sorted(tensors) == sorted(TENSORS)
    for name, array in TENSORS.items():
        assert tensors[name].dtype == array.dtype
        np.testing.assert_array_equal(tensors[name], array)


def test_tensors_are_read_on_demand(path):
    tensors = read_tensors(path)
    changed = path.read_bytes().replace(
        TENSORS["matrix"].tobytes(), np.zeros(6, "float32").tobytes()
    )
    path.write_bytes(changed)
    assert not tensors["matrix"].any()
    path.write_bytes(changed[:-30])
    assert "matrix" in tensors and len(tensors) == len(TENSORS)
    with pytest.raises(InputError, match="model.safetensors"):
        [tensors[name] for name in TENSORS]
    with pytest.raises(KeyError):
        tensors["other"]


@pytest.mark.parametrize(
    ("old", "new", "received"),
    [
        (b"[2]", b"[3]", "invalid shape"),
        (b'{"', b"{ ", "invalid JSON"),
        (b"F16", b"Q16", "invalid JSON"),
    ],
)
def test_invalid_headers(path, old, new, received):
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    with pytest.raises(InputError, match=f"{path}.*{received}"):
        read_tensors(path)


@pytest.mark.parametrize(
    ("content", "received"),
    [
        (b"", "b''"),
        (b"\x80\x04K\x01.", "begins with"),  # any other pickle
        (b"\x89HDF\r\n\x1a\n", "begins with"),
        (b"PK\x03\x04", "BadZipFile"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    ],
)
def test_other_files(path, content, received):
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"{path}.*{received}"):
        read_tensors(path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_numpy(tmp_path, save):
    path = tmp_path / "model.npz"
    save(path, w=TENSORS["matrix"])
    np.testing.assert_array_equal(read_tensors(path)["w"], TENSORS["matrix"])


def test_without_the_package_the_message_names_the_extra(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(InputError, match=r"\.\[tensorflow\]"):
        read_tensors(path)
