"""PyTorch's own files, read without it."""

import collections

import ml_dtypes
import numpy as np
import pytest

from keras_transformer.convert import torch_files
from keras_transformer.convert.tensor_files import read_tensors

torch = pytest.importorskip("torch")

DTYPES = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
)


@pytest.fixture(params=["zip", "legacy"])
def save(request, tmp_path):
    def save(state):
        path, is_zip = tmp_path / "pytorch_model.bin", request.param == "zip"
        torch.save(state, path, _use_new_zipfile_serialization=is_zip)
        return path

    return save


def check_read(path):
    expected, tensors = torch.load(path), read_tensors(path)
    assert list(tensors) == list(expected)
    for name, tensor in expected.items():
        array = tensors[name]
        if tensor.dtype == torch.bfloat16:
            assert array.dtype == ml_dtypes.bfloat16
            tensor, array = tensor.float(), array.astype("float32")
        value = tensor.detach().numpy()
        assert (array.dtype, array.shape) == (value.dtype, value.shape), name
        np.testing.assert_array_equal(array, value)


def test_every_type_and_view(save):
    matrix = torch.randn(5, 7)
    numbers = torch.arange(6).reshape(2, 3)
    assert len(DTYPES) == len(torch_files.DTYPES)
    state = {str(dtype): numbers.to(dtype) for dtype in DTYPES}
    state |= {
        "matrix": matrix,
        "tied": matrix,
        "transposed": matrix.T,
        "part": matrix[1:4, ::3],
        "parameter": torch.nn.Parameter(matrix.T),
        "number": torch.tensor(3.5),
        "empty": torch.zeros(0, 4),
    }
    check_read(save(state))
    check_read(save(collections.OrderedDict(one=matrix)))
    check_read(save(torch.nn.Transformer(16, 2, 1, 1, 8).half().state_dict()))
