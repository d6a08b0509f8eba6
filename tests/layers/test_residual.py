import keras
import numpy as np
import pytest
from helpers import normal, to_numpy
from keras import ops

from keras_transformer.layers import FeedForward, Residual

X = normal(2, 4, 8)


def test_sublayer_gets_x_and_its_output_is_added():
    residual = Residual()
    output = residual(X, sublayer=lambda x: ops.flip(x, axis=1))
    expected = residual(X + X[:, ::-1], sublayer=lambda x: 0 * x)
    np.testing.assert_allclose(to_numpy(output), to_numpy(expected), atol=1e-5)


def test_new_layer_normalizes_each_position():
    output = to_numpy(Residual()(X, sublayer=lambda x: 3 * x + 7))
    np.testing.assert_allclose(output.mean(axis=-1), 0, atol=1e-5)
    np.testing.assert_allclose(output.std(axis=-1), 1, atol=1e-5)


def test_a_functional_model_is_an_error():
    with pytest.raises(ValueError, match="sub-layer"):
        Residual()(keras.Input((None, 8)), sublayer=FeedForward(12))
