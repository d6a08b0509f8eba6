"""The files of PyTorch itself, read without it."""

import collections

import ml_dtypes
import numpy as np
import pytest

from keras_transformer.convert import torch_files
from keras_transformer.convert.tensor_files import read_tensors
from keras_transformer.support.errors import InputError

torch = pytest.importorskip(
    "torch", reason='needs PyTorch: pip install "keras-transformer-nmt[torch]"'
)


@pytest.fixture(params=["zip", "legacy"])
def save(request, tmp_path):
    def save(state, **options):
        path = tmp_path / "pytorch_model.bin"
        torch.save(
            state,
            path,
            _use_new_zipfile_serialization=request.param == "zip",
            **options,
        )
        return path

    return save


def assert_read(path):
    """Asserts that what is read is what PyTorch itself loads."""
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
    torch.manual_seed(0)
    matrix = torch.randn(5, 7)
    state = {
        kind.rpartition(".")[2]: torch.arange(6).reshape(2, 3).to(dtype)
        for kind, dtype in zip(
            torch_files.DTYPES,
            (
                *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
                *(torch.int64, torch.int32, torch.int16, torch.int8),
                torch.uint8,
            ),
            strict=True,
        )
    }
    state |= {
        "matrix": matrix,
        "tied": matrix,
        "transposed": matrix.T,
        "part": matrix[1:4, ::3],
        "parameter": torch.nn.Parameter(matrix.T),
        "number": torch.tensor(3.5),
        "empty": torch.zeros(0, 4),
        "one": torch.randn(1),
    }
    assert_read(save(state))
    assert_read(save(collections.OrderedDict(one=matrix)))


def test_the_state_of_a_module(save):
    """It has hundreds of tensors, and versions beside them."""
    module = torch.nn.Transformer(
        16, 2, num_encoder_layers=6, dim_feedforward=8, batch_first=True
    )
    assert_read(save(module.state_dict()))
    assert_read(save(module.half().state_dict()))


def test_other_objects_are_refused(save):
    module = torch.nn.Linear(2, 3)
    for state, expected in (
        (module, "names '"),
        ({"state": module.state_dict()}, "OrderedDict"),
        ({"w": module.weight, "step": 3}, "int"),
        (torch.zeros(3), "AttributeError"),
        ({"w": torch.zeros(3) > 0}, "BoolStorage"),
        ({"w": torch.zeros(1).expand(99)}, "'w'"),
    ):
        with pytest.raises(InputError, match=expected):
            read_tensors(save(state))
