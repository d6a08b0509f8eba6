"""The model and its gradients against float64 NumPy written from the paper."""

import keras
import numpy as np
import numpy_reference as reference
import pytest
from helpers import gradients, randomise, to_numpy, weights_by_path

import keras_transformer as kt

SOURCE = np.array([[5, 9, 3, 0], [7, 4, 8, 3]], "int32")
TARGET = np.array([[2, 6, 5, 10, 4], [2, 8, 0, 0, 0]], "int32")
LABELS = np.array([[6, 5, 10, 4, 3], [8, 3, 0, 0, 0]], "int32")
SMOOTHING = 0.1


@pytest.fixture(scope="module")
def model():
    config = kt.TransformerConfig(
        vocab_size=11,
        num_layers=2,
        d_model=8,
        d_ff=12,
        num_heads=2,
        d_k=3,
        d_v=5,
        dropout=0.5,
    )
    model = kt.Transformer(config)
    randomise(model)
    return model


def logits(model, **arguments):
    return model({"source": SOURCE, "target": TARGET}, **arguments)


def reference_logits(weights, **arguments):
    return reference.transformer(weights, 2, SOURCE, TARGET, **arguments)


def test_logits(model):
    expected = reference_logits(weights_by_path(model))
    assert expected.std() > 0.3
    np.testing.assert_allclose(
        to_numpy(logits(model)), expected, rtol=1e-4, atol=1e-5
    )


def test_dropout_is_applied_where_the_paper_says(model, monkeypatch):
    # Something deterministic in place of dropout.
    def halve(self, x, training=None):
        return 0.5 * x if training else x

    monkeypatch.setattr(keras.layers.Dropout, "call", halve)
    expected = reference_logits(
        weights_by_path(model), dropout=lambda x: 0.5 * x
    )
    np.testing.assert_allclose(
        to_numpy(logits(model, training=True)), expected, rtol=1e-4, atol=1e-5
    )
    assert np.abs(expected - to_numpy(logits(model))).max() > 0.1


def test_gradients_of_every_weight(model):
    """Compares with slopes of the reference in random directions."""
    loss = kt.LabelSmoothedCrossEntropy(SMOOTHING)
    found = gradients(
        lambda: loss(LABELS, logits(model)), model.trainable_variables
    )
    weights = weights_by_path(model)
    assert len(weights) == len(found)
    random = np.random.default_rng(1)
    for (path, value), gradient in zip(weights.items(), found, strict=True):
        norm = np.linalg.norm(gradient)
        assert norm > 1e-4, path
        for _ in range(2):
            direction = random.normal(size=value.shape)
            high, low = (
                reference.mean_loss(
                    LABELS,
                    reference_logits({**weights, path: value + step}),
                    SMOOTHING,
                )
                for step in (1e-5 * direction, -1e-5 * direction)
            )
            slope = (high - low) / 2e-5
            assert slope == pytest.approx(
                (gradient * direction).sum(), abs=2e-4 * norm
            ), path
