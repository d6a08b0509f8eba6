import numpy as np
from helpers import normal, randomise, to_numpy

from keras_transformer.layers import FeedForward


def test_each_position_is_transformed_independently():
    feed_forward = FeedForward(12)
    x = normal(2, 4, 8)
    feed_forward(x)
    randomise(feed_forward)
    whole = to_numpy(feed_forward(x))
    for position in range(4):
        alone = feed_forward(x[:, position : position + 1])
        np.testing.assert_allclose(
            to_numpy(alone)[:, 0], whole[:, position], atol=1e-5
        )


def test_both_transformations_have_a_bias():
    feed_forward = FeedForward(12)
    feed_forward(normal(2, 4, 8))
    shapes = [tuple(weight.shape) for weight in feed_forward.weights]
    assert shapes == [(8, 12), (12,), (12, 8), (8,)]
