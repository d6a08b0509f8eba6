import keras
import numpy as np
import numpy_reference as reference
import pytest
from helpers import normal, randomise, to_numpy, weights_by_path

from keras_transformer.layers import Encoder, EncoderLayer
from keras_transformer.masks import (
    causal_mask,
    combine_masks,
    padding_mask,
)

X = normal(2, 4, 8)
MASK = np.array([[[True, True, False, True]], [[True, False, False, False]]])


def test_number_of_weights():
    layer = EncoderLayer(num_heads=2, d_ff=12, d_k=3, d_v=5)
    layer(X)
    norms = [w.path for w in layer.weights if w.path.endswith("gamma")]
    assert len(norms) == 2
    # 4 projections, 2 norms of 2 weights, 2 transformations with a bias.
    assert len(layer.weights) == 4 + 4 + 4

    encoder = Encoder(num_layers=3, num_heads=2, d_ff=12, d_k=3, d_v=5)
    encoder(X)
    assert encoder.count_params() == 3 * layer.count_params()
    assert len(encoder.weights) == 3 * 12


def test_masked_positions_have_no_influence():
    encoder = Encoder(2, num_heads=2, d_ff=12)
    changed = np.where(MASK.swapaxes(1, 2), X, 100.0).astype("float32")
    shown = np.broadcast_to(MASK.swapaxes(1, 2), X.shape)
    np.testing.assert_array_equal(
        to_numpy(encoder(X, MASK))[shown],
        to_numpy(encoder(changed, MASK))[shown],
    )


def test_scores_of_each_layer():
    encoder = Encoder(2, num_heads=2, d_ff=12)
    encoder(X)
    randomise(encoder)
    weights = weights_by_path(encoder)
    output, scores = encoder(X, MASK, return_attention_scores=True)
    np.testing.assert_allclose(
        to_numpy(output), to_numpy(encoder(X, MASK)), atol=1e-5
    )
    x = X.astype("float64")
    for found, layer in zip(scores, reference.layers(weights), strict=True):
        query, key = (
            np.split(x @ layer[f"self_attention/{name}/kernel"], 2, axis=-1)
            for name in ("query", "key")
        )
        for head in range(2):
            np.testing.assert_allclose(
                to_numpy(found)[:, head],
                reference.attention_scores(query[head], key[head], MASK),
                atol=1e-5,
            )
        x = reference.encoder_layer(layer, 2, x, MASK)


@pytest.mark.parametrize(
    "layer",
    (
        EncoderLayer(num_heads=2, d_ff=12),
        Encoder(2, num_heads=2, d_ff=12),
    ),
    ids=("layer", "encoder"),
)
@pytest.mark.parametrize("causal", (False, True), ids=("alone", "and causal"))
def test_padding_that_keras_masks_is_not_attended_to(layer, causal):
    ids = np.array([[0, 3, 4, 0], [5, 6, 7, 0]], "int32")
    words = keras.Input((None,), dtype="int32")
    embedding = keras.layers.Embedding(9, 8, mask_zero=True)
    mask = causal_mask(words) if causal else None
    model = keras.Model(words, layer(embedding(words), mask))
    x = to_numpy(embedding(ids)).astype("float32")
    mask = causal_mask(4) if causal else None
    found = to_numpy(model(ids))
    expected = layer(x, combine_masks(mask, padding_mask(ids, 0)))
    np.testing.assert_allclose(found, to_numpy(expected), atol=1e-5)
    assert np.abs(found - to_numpy(layer(x, mask))).max() > 1e-4
