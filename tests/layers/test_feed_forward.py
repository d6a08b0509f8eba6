import numpy as np
from helpers import normal, randomise, to_numpy

from keras_transformer.layers import FeedForward


def test_each_position_is_transformed_independently():
    feed_forward = FeedForward(12)
    x = normal(2, 4, 8)
    feed_forward(x)
    randomise(feed_forward)
    alone = feed_forward(x[:, 1:2])
    expected = to_numpy(feed_forward(x))[:, 1:2]
    np.testing.assert_allclose(to_numpy(alone), expected, atol=1e-5)
