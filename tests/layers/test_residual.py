import numpy as np
import pytest
from helpers import POLICIES, normal, to_numpy

from keras_transformer.layers import AddNorm

X = normal(2, 4, 8)


def test_only_the_output_of_the_sublayer_is_dropped():
    add_norm = AddNorm(dropout=0.9)
    np.testing.assert_array_equal(
        to_numpy(add_norm(X, 0 * X, training=True)),
        to_numpy(add_norm(X, 0 * X)),
    )


def test_dropout_drops_the_given_share_before_the_normalisation():
    # Ones become 0 or 4: after the normalisation, two values in each row.
    add_norm = AddNorm(dropout=0.75)
    zeros, ones = np.zeros((1, 4, 4000), "float32"), np.ones((1, 4, 4000))
    output = to_numpy(add_norm(zeros, ones.astype("float32"), training=True))
    kept = (output > 0).mean()
    assert kept == pytest.approx(0.25, abs=0.02)
    for row in output[0]:
        assert len(np.unique(row.round(4))) == 2
        assert row.max() - row.min() == pytest.approx(
            1 / np.sqrt((row > 0).mean() * (row < 0).mean()), rel=1e-3
        )


@pytest.mark.parametrize("policy", POLICIES)
def test_new_layer_normalises_each_position(policy):
    output = to_numpy(AddNorm(dtype=policy)(X, 3 * X + 7))
    tolerance = 1e-5 if policy == "float32" else 2e-2
    np.testing.assert_allclose(output.mean(axis=-1), 0, atol=tolerance)
    np.testing.assert_allclose(output.std(axis=-1), 1, atol=tolerance)
