import keras
import numpy as np
import pytest
from helpers import POLICIES, normal, to_numpy
from keras import ops

from keras_transformer.layers import FeedForward, Residual

X = normal(2, 4, 8)


def test_sublayer_gets_x_and_its_output_is_added():
    residual = Residual()
    output = residual(X, sublayer=lambda x: ops.flip(x, axis=1))
    expected = residual(X + X[:, ::-1], sublayer=lambda x: 0 * x)
    np.testing.assert_allclose(to_numpy(output), to_numpy(expected), atol=1e-5)


def test_only_the_output_of_the_sublayer_is_dropped():
    residual = Residual(dropout=0.9)

    def nothing(x):
        return 0 * x

    np.testing.assert_array_equal(
        to_numpy(residual(X, sublayer=nothing, training=True)),
        to_numpy(residual(X, sublayer=nothing)),
    )


def test_dropout_comes_before_the_normalization():
    # Ones become 0 or 4: after the normalization, two values in each row.
    residual = Residual(dropout=0.75)
    zeros = np.zeros((1, 4, 4000), "float32")
    output = to_numpy(residual(zeros, sublayer=lambda x: x + 1, training=True))
    kept = (output > 0).mean()
    assert kept == pytest.approx(0.25, abs=0.02)
    for row in output[0]:
        assert len(np.unique(row.round(4))) == 2
        assert row.max() - row.min() == pytest.approx(
            1 / np.sqrt((row > 0).mean() * (row < 0).mean()), rel=1e-3
        )


@pytest.mark.parametrize("policy", POLICIES)
def test_new_layer_normalizes_each_position(policy):
    residual = Residual(dtype=policy)
    output = to_numpy(residual(X, sublayer=lambda x: 3 * x + 7))
    tolerance = 1e-5 if policy == "float32" else 2e-2
    np.testing.assert_allclose(output.mean(axis=-1), 0, atol=tolerance)
    np.testing.assert_allclose(output.std(axis=-1), 1, atol=tolerance)


def test_functional_model_is_refused():
    with pytest.raises(ValueError, match="sub-layer"):
        Residual()(keras.Input((None, 8)), sublayer=FeedForward(12))
