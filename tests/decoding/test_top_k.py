"""The best tokens of a vocabulary, found by blocks."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding.top_k import top_k


@pytest.mark.parametrize("vocab_size", [640, 330, 211, 7])
@pytest.mark.parametrize("count", [3, 7])
def test_best_tokens_of_a_large_vocabulary(vocab_size, count):
    """Blocks of 128 and 110 tokens, and two sizes without blocks."""
    random = np.random.default_rng(0)
    log_probs = random.normal(size=(2, 3, vocab_size)).astype("float32")
    # Most of the best are in the same block; a block without any allowed one.
    log_probs[0, :, :8] += 10.0
    log_probs[1, 0, : vocab_size // 2] = -np.inf
    values, tokens = top_k(tf.constant(log_probs), tf.constant(count))
    expected, indices = tf.math.top_k(log_probs, count)
    np.testing.assert_array_equal(values, expected)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(tokens.numpy()[finite], indices[finite])
    flat = top_k(tf.reshape(log_probs, [6, vocab_size]), count)
    for found, of_rows in zip((values, tokens), flat, strict=True):
        np.testing.assert_array_equal(tf.reshape(of_rows, [2, 3, -1]), found)
