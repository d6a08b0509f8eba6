import keras
import numpy as np
import pytest
from helpers import dtype_of, normal, to_numpy
from keras import ops

from keras_transformer import layers
from keras_transformer.masks import (
    causal_mask,
    combine_masks,
    padding_mask,
    window_mask,
)

LOWER_TRIANGLE = [[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]


def test_padding_mask_hides_the_given_id():
    mask = padding_mask(np.array([[7, 9, 7], [9, 9, 9]]), pad_id=9)
    assert dtype_of(mask) == "bool"
    np.testing.assert_array_equal(to_numpy(mask), [[[1, 0, 1]], [[0, 0, 0]]])


@pytest.mark.parametrize(
    "make_length",
    (
        lambda: 3,
        lambda: np.int64(3),
        lambda: ops.convert_to_tensor(3, "int32"),
        lambda: np.zeros((2, 3), "int32"),
        lambda: ops.zeros((2, 3, 5)),
    ),
    ids=("int", "numpy", "scalar tensor", "ids", "states"),
)
def test_causal_mask_hides_the_future(make_length):
    mask = causal_mask(make_length())
    assert dtype_of(mask) == "bool"
    np.testing.assert_array_equal(to_numpy(mask), LOWER_TRIANGLE)


def test_causal_mask_in_a_functional_model_of_unknown_length(tmp_path):
    states = keras.Input((None, 8))
    attention = layers.MultiHeadAttention(2)
    output = attention(states, states, causal_mask(states))
    keras.Model(states, output).save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for length in (1, 4):
        x = normal(2, length, 8)
        expected = attention(x, x, causal_mask(length))
        np.testing.assert_allclose(
            to_numpy(loaded(x)), to_numpy(expected), atol=1e-5
        )


@pytest.mark.parametrize("length", (None, np.zeros(3), np.zeros((1, 2, 3, 4))))
def test_causal_mask_of_a_wrong_length(length):
    with pytest.raises(ValueError, match="causal_mask"):
        causal_mask(length)


def test_masks_are_combined_by_and():
    padding = np.array([[[True, True, False]]])
    combined = combine_masks(None, causal_mask(3), padding, None)
    np.testing.assert_array_equal(
        to_numpy(combined), [[[1, 0, 0], [1, 1, 0], [1, 1, 0]]]
    )
    assert combine_masks(padding, None) is padding
    assert combine_masks(None, None) is None


@pytest.mark.parametrize(
    ("window", "causal", "expected"),
    (
        (1, False, ["1000", "0100", "0010", "0001"]),
        (2, False, ["1000", "1100", "0110", "0011"]),
        (3, False, ["1100", "1110", "0111", "0011"]),
        (4, False, ["1100", "1110", "1111", "0111"]),
        (9, False, ["1111", "1111", "1111", "1111"]),
        (1, True, ["1000", "0100", "0010", "0001"]),
        (2, True, ["1000", "1100", "0110", "0011"]),
        (3, True, ["1000", "1100", "1110", "0111"]),
        (9, True, ["1000", "1100", "1110", "1111"]),
    ),
)
def test_window_mask_hides_what_is_not_near(window, causal, expected):
    for length in (4, ops.convert_to_tensor(4, "int32")):
        mask = window_mask(length, window, causal)
        assert dtype_of(mask) == "bool"
        rows = [list(map(int, row)) for row in expected]
        np.testing.assert_array_equal(to_numpy(mask), [rows])
