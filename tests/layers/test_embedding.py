import keras
import numpy as np
import pytest
from helpers import (
    POLICIES,
    dtype_of,
    gradients,
    normal,
    randomise,
    to_numpy,
    tolerance,
)
from keras import ops

from keras_transformer.layers import TiedEmbedding

IDS = np.array([[1, 4], [4, 0]], "int32")


@pytest.mark.parametrize("policy", POLICIES)
def test_logits_are_products_with_the_unscaled_matrix(policy):
    embedding = TiedEmbedding(5, 8, dtype=policy)
    embedding(IDS)
    randomise(embedding)
    states = normal(2, 3, 8)
    logits = embedding(states, reverse=True)
    assert tuple(logits.shape) == (2, 3, 5)
    (matrix,) = embedding.weights
    np.testing.assert_allclose(
        to_numpy(logits),
        states @ to_numpy(matrix).T,
        atol=tolerance(policy, 8),
    )


def test_embeddings_and_logits_start_with_unit_variance():
    embedding = TiedEmbedding(1000, 256)
    embedded = to_numpy(embedding(np.arange(1000, dtype="int32")[None]))
    assert embedded.std() == pytest.approx(1.0, abs=0.01)
    states = np.random.default_rng(0).normal(size=(1, 50, 256))
    logits = to_numpy(embedding(states.astype("float32"), reverse=True))
    assert logits.std() == pytest.approx(1.0, abs=0.02)


def test_gradient_of_the_matrix_comes_from_both_uses():
    embedding = TiedEmbedding(5, 4)
    embedding(IDS)
    states = normal(1, 2, 4)

    def loss():
        embedded, logits = embedding(IDS), embedding(states, reverse=True)
        return ops.sum(embedded) + 3.0 * ops.sum(logits)

    (gradient,) = gradients(loss, embedding.trainable_variables)
    count = np.array([1, 1, 0, 0, 2])[:, None]
    expected = 2.0 * count + 3.0 * states.sum(axis=(0, 1))
    np.testing.assert_allclose(gradient, expected, rtol=1e-5)


def test_a_language_model_of_one_matrix_has_the_compute_dtype():
    embedding = TiedEmbedding(5, 8, dtype="mixed_bfloat16")
    ids = keras.Input((None,), dtype="int32")
    states = keras.layers.Dense(8)(embedding(ids))
    model = keras.Model(ids, embedding(states, reverse=True))
    assert model.output_shape == (None, None, 5)
    assert model.count_params() == 5 * 8 + 8 * 8 + 8
    assert dtype_of(model(IDS)) == dtype_of(model.output) == "bfloat16"
