import keras
import numpy as np
import numpy_reference as reference
import pytest
from helpers import normal

import keras_transformer as kt

V = 7
# Two batches of different token counts; padding is 0.
BATCHES = (
    (np.array([[3, 1, 6], [5, 0, 0]], "int32"), 2 * normal(2, 3, V, seed=1)),
    (np.array([[2, 0]], "int32"), 2 * normal(1, 2, V, seed=2)),
)
METRICS = (kt.TokenNLL, kt.Perplexity, kt.TokenAccuracy)


def tokens(values, pad_id=0):
    """The values of all tokens of both batches that are not padding."""
    return np.concatenate([values(*b)[b[0] != pad_id] for b in BATCHES])


def nll(labels, logits):
    return reference.token_losses(labels, logits, 0.0)


def is_right(labels, logits):
    return logits.argmax(axis=-1) == labels


def accumulated(metric):
    for labels, logits in BATCHES:
        metric.update_state(labels, logits)
    return float(metric.result())


@pytest.mark.parametrize("pad_id", (0, 5))
def test_every_token_counts_once_over_the_batches(pad_id):
    expected = tokens(nll, pad_id).mean()
    metric, perplexity = kt.TokenNLL(pad_id), kt.Perplexity(pad_id)
    for _ in range(2):
        assert accumulated(metric) == pytest.approx(expected, rel=1e-5)
        metric.reset_state()
    assert accumulated(perplexity) == pytest.approx(np.exp(expected), rel=1e-5)


def test_accuracy_is_the_share_of_right_tokens():
    labels, logits = BATCHES[0]
    logits = logits.copy()
    logits[0, 1, 1] = 50.0  # right
    logits[0, 2, 1] = 50.0  # wrong
    logits[1, 1:, 0] = 50.0  # padding, which would be right
    metric = kt.TokenAccuracy()
    metric.update_state(labels, logits)
    expected = is_right(labels, logits)[labels != 0].mean()
    assert 0 < expected < 1
    assert float(metric.result()) == pytest.approx(expected)
    assert accumulated(kt.TokenAccuracy()) == pytest.approx(
        tokens(is_right).mean()
    )


def test_sample_weights():
    labels, logits = BATCHES[0]
    metric = kt.TokenNLL()
    metric.update_state(labels, logits, np.array([2.0, 0.5]))
    weight = np.array([[2.0], [0.5]]) * (labels != 0)
    expected = (weight * nll(labels, logits)).sum() / weight.sum()
    assert float(metric.result()) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("wrong", (-1, -100, V))
@pytest.mark.parametrize("metric_class", METRICS)
def test_a_label_that_is_not_a_token_is_never_another(metric_class, wrong):
    labels, logits = BATCHES[0]
    expected = metric_class()
    expected.update_state(labels, logits)
    padded = np.where(labels == 0, wrong, labels)
    ignored, weighted, counted = metric_class(wrong), *[metric_class()] * 2
    ignored.update_state(padded, logits)
    weighted.update_state(padded, logits, (labels != 0).astype("float32"))
    for metric in (ignored, weighted):
        assert float(metric.result()) == pytest.approx(float(expected.result()))
    # Whatever is predicted, it is not right.
    counted.reset_state()
    counted.update_state(0 * labels + wrong, logits)
    value = 0.0 if metric_class is kt.TokenAccuracy else np.nan
    np.testing.assert_equal(float(counted.result()), value)


@pytest.mark.parametrize("metric_class", METRICS)
def test_saving_round_trip(metric_class):
    metric = metric_class(pad_id=5, name="mine")
    copy = keras.metrics.deserialize(keras.metrics.serialize(metric))
    assert type(copy) is metric_class
    assert (copy.pad_id, copy.name) == (5, "mine")
    assert accumulated(copy) == accumulated(metric)
