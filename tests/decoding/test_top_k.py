"""The best tokens of a vocabulary, found by blocks."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding.top_k import block_size, top_k


def test_size_of_blocks():
    assert [block_size(n) for n in (8_000, 37_000, 211, None)] == [
        32,
        74,
        None,
        None,
    ]


@pytest.mark.parametrize("vocab_size", [640, 330, 211, 7])
@pytest.mark.parametrize("count", [3, 7])
def test_best_tokens_of_a_large_vocabulary(vocab_size, count):
    """Blocks of 32 and 33 tokens, and two sizes without blocks."""
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
