import keras
import numpy as np
import numpy_reference as reference
import pytest
from helpers import check_examples, dtype_of, gradients, normal, to_numpy
from keras import ops

from keras_transformer import losses
from keras_transformer.losses import (
    LabelSmoothedCrossEntropy,
    smoothed_cross_entropy,
)

SMOOTHINGS = (0.0, 0.1, 0.2)
V = 7
LOGITS = 2 * normal(2, 4, V)
# Padding is 0: a long and a short sequence.
LABELS = np.array([[3, 1, 6, 2], [5, 0, 0, 0]], "int32")


def test_examples_of_the_docstrings():
    check_examples(losses)


@pytest.mark.parametrize("dtype", ("float32", "bfloat16", "float16"))
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_each_token_against_an_explicit_target(smoothing, dtype):
    # These logits are exact in every dtype.
    found = smoothed_cross_entropy(LABELS, ops.cast(LOGITS, dtype), smoothing)
    assert dtype_of(found) == "float32"
    expected = reference.token_losses(LABELS, LOGITS, smoothing)
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", ("float32", "bfloat16", "float16"))
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_gradient_is_softmax_minus_target(smoothing, dtype):
    logits = keras.Variable(LOGITS)
    weights = normal(2, 4, seed=1)  # the upstream gradient

    def weighted():
        x = ops.cast(logits + 0, dtype)
        losses = smoothed_cross_entropy(LABELS, x, smoothing)
        return ops.sum(ops.multiply(weights, losses))

    (found,) = gradients(weighted, [logits])
    right = np.eye(V)[LABELS]
    target = (1 - smoothing) * right + smoothing / (V - 1) * (1 - right)
    softmax = np.exp(reference.log_softmax(LOGITS.astype("float64")))
    expected = weights[..., None] * (softmax - target)
    rounding = {"float32": 1e-6, "bfloat16": 1e-2, "float16": 1e-3}[dtype]
    np.testing.assert_allclose(found, expected, rtol=rounding, atol=rounding)


def test_large_logits_are_finite():
    logits = keras.Variable(1e4 * LOGITS)

    def loss():
        x = logits + 0
        return ops.sum(smoothed_cross_entropy(LABELS, x, 0.1))

    expected = reference.token_losses(LABELS, 1e4 * LOGITS, 0.1).sum()
    np.testing.assert_allclose(to_numpy(loss()), expected, rtol=1e-5)
    assert np.isfinite(gradients(loss, [logits])[0]).all()


def test_padding_is_ignored():
    loss = LabelSmoothedCrossEntropy(0.1)
    changed = np.where((LABELS == 0)[..., None], 100.0, LOGITS)
    changed[1, 2, 3] = -50.0
    assert float(loss(LABELS, changed.astype("float32"))) == pytest.approx(
        float(loss(LABELS, LOGITS))
    )
    logits = keras.Variable(LOGITS)
    (gradient,) = gradients(lambda: loss(LABELS, logits + 0), [logits])
    padded = np.abs(gradient).max(axis=-1) == 0
    np.testing.assert_array_equal(padded, LABELS == 0)


@pytest.mark.parametrize("wrong", (-1, -100, V, V + 100))
def test_a_label_that_is_not_a_token_has_no_loss(wrong):
    """It is no other token, neither from the end nor the last one."""
    labels = LABELS.copy()
    labels[0, 1] = wrong
    losses = to_numpy(smoothed_cross_entropy(labels, LOGITS, 0.1))
    expected = reference.token_losses(LABELS, LOGITS, 0.1)
    expected[0, 1] = np.nan
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert np.isnan(float(LabelSmoothedCrossEntropy(0.1)(labels, LOGITS)))


@pytest.mark.parametrize("padding", (-1, -100, V))
def test_padding_need_not_be_a_token(padding):
    labels = np.where(LABELS == 0, padding, LABELS)
    expected = float(LabelSmoothedCrossEntropy(0.1)(LABELS, LOGITS))
    found = LabelSmoothedCrossEntropy(0.1, pad_id=padding)(labels, LOGITS)
    assert float(found) == pytest.approx(expected)
    weight = (labels != padding).astype("float32")
    found = LabelSmoothedCrossEntropy(0.1)(labels, LOGITS, weight)
    assert float(found) == pytest.approx(expected)
    logits = keras.Variable(LOGITS)
    loss = LabelSmoothedCrossEntropy(0.1, pad_id=padding)
    (gradient,) = gradients(lambda: loss(labels, logits + 0), [logits])
    np.testing.assert_array_equal(np.abs(gradient).max(-1) == 0, LABELS == 0)


@pytest.mark.parametrize(
    "weight",
    (
        np.array([2.0, 0.5], "float32"),
        np.array([[2.0], [0.5]], "float32"),
        np.array([[1.0, 0.0, 2.0, 0.5], [3.0, 4.0, 5.0, 6.0]], "float32"),
    ),
    ids=("sequence", "sequence-column", "token"),
)
def test_sample_weights(weight):
    tokens = reference.token_losses(LABELS, LOGITS, 0.1)
    each = weight[:, None] if weight.ndim == 1 else weight
    each = each * (LABELS != 0)
    expected = (each * tokens).sum() / each.sum()
    found = LabelSmoothedCrossEntropy(0.1)(LABELS, LOGITS, weight)
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_a_batch_of_padding_gives_zero_and_a_zero_gradient():
    loss, labels = LabelSmoothedCrossEntropy(0.1), 0 * LABELS
    assert float(loss(labels, LOGITS)) == 0.0
    logits = keras.Variable(LOGITS)
    (gradient,) = gradients(lambda: loss(labels, logits + 0), [logits])
    assert (gradient == 0).all()


def test_saving_round_trip():
    loss = LabelSmoothedCrossEntropy(0.2, pad_id=5, name="mine")
    copy = keras.losses.deserialize(keras.losses.serialize(loss))
    assert copy.get_config() == loss.get_config()
    assert (copy.label_smoothing, copy.pad_id, copy.name) == (0.2, 5, "mine")


@pytest.mark.parametrize("pad_id", (0, 5))
@pytest.mark.parametrize("reduction", ("mean_with_sample_weight", "sum"))
def test_every_token_of_a_batch_has_the_same_weight(reduction, pad_id):
    loss = LabelSmoothedCrossEntropy(0.1, pad_id, reduction)
    tokens = reference.token_losses(LABELS, LOGITS, 0.1)[LABELS != pad_id]
    expected = tokens.sum() if reduction == "sum" else tokens.mean()
    assert float(loss(LABELS, LOGITS)) == pytest.approx(expected, rel=1e-5)


def test_wrong_arguments_are_named():
    for smoothing in (-0.1, 1.0):
        with pytest.raises(ValueError, match=f"label_smoothing .*{smoothing}"):
            LabelSmoothedCrossEntropy(smoothing)
    weights = np.ones((2, 4, 1), "float32")
    with pytest.raises(ValueError, match=r"\(2, 4, 1\)"):
        LabelSmoothedCrossEntropy(0.1)(LABELS, LOGITS, weights)
