import math

import numpy as np
import pytest
import tensorflow as tf
from search_tables import PENALTIES, penalty

from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.losses import token_log_probs

PAD, BOS, EOS = 0, 1, 2
VOCAB = 7
ALL_SETTINGS = [BeamSearch(**penalties) for penalties in PENALTIES]
SUM = BeamSearch(alpha=0.0)  # of log-probabilities


def scores_of(labels, logits, settings, pad_id=PAD):
    lengths = (np.asarray(labels) != pad_id).sum(axis=1)
    log_probs = token_log_probs(labels, logits, pad_id)
    penalties = settings.penalty(lengths.astype("float32"))
    return tf.reduce_sum(log_probs, axis=1) / penalties


def numpy_scores(labels, logits, settings):
    scores = []
    for row, row_logits in zip(labels, logits, strict=True):
        log_prob, length = 0.0, 0
        for token, z in zip(row, row_logits.astype("float64"), strict=True):
            if token != PAD:
                log_prob += z[token] - math.log(np.exp(z).sum())
                length += 1
        divisor = penalty(length, settings.alpha, settings.length_penalty)
        scores.append(log_prob / divisor)
    return scores


@pytest.mark.parametrize("settings", ALL_SETTINGS)
def test_scores_exclude_padding(settings):
    labels = np.array([[4, 5, 6, EOS], [3, EOS, PAD, PAD], [EOS, 0, 0, 0]])
    logits = np.random.default_rng(0).normal(size=(3, 4, VOCAB)) * 3
    logits = logits.astype("float32")
    scores = scores_of(labels, logits, settings)
    assert scores.dtype == tf.float32
    expected = numpy_scores(labels, logits, settings)
    np.testing.assert_allclose(scores, expected, rtol=1e-5)


def test_scores_for_a_padding_id():
    labels = np.array([[0, 4, EOS, 6], [4, EOS, 6, 6]])
    logits = np.zeros((2, 4, VOCAB), "float32")
    scores = scores_of(labels, logits, SUM, pad_id=6)
    expected = [-3 * math.log(VOCAB), -2 * math.log(VOCAB)]
    np.testing.assert_allclose(scores, expected, rtol=1e-5)


def test_low_precision_logits_are_scored_in_float32():
    labels = np.full((1, 300), 3)
    logits = np.random.default_rng(0).normal(size=(1, 300, VOCAB))
    logits = tf.cast(logits, tf.bfloat16)
    scores = scores_of(labels, logits, SUM)
    assert scores.dtype == tf.float32
    expected = numpy_scores(labels, tf.cast(logits, tf.float32).numpy(), SUM)
    # A sum in bfloat16 would be off by a hundredth.
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
