import keras
import numpy as np
import numpy_reference as reference
import pytest
from helpers import normal, randomise, to_numpy, weights_by_path

from keras_transformer.layers import Encoder
from keras_transformer.masks import (
    causal_mask,
    combine_masks,
    padding_mask,
)

X = normal(2, 4, 8)
MASK = np.array([[[True, True, False, True]], [[True, False, False, False]]])


def test_scores_of_each_layer():
    encoder = Encoder(2, num_heads=2, d_ff=12)
    encoder(X)
    randomise(encoder)
    _, scores = encoder(X, MASK, return_attention_scores=True)
    x, layers = X.astype("float64"), reference.layers(weights_by_path(encoder))
    for found, layer in zip(scores, layers, strict=True):
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


# Keras passes the mask as `mask`, with an `attention_mask` as `x_mask`.
@pytest.mark.parametrize("causal", (False, True), ids=("alone", "and causal"))
def test_padding_that_keras_masks_is_not_attended_to(causal):
    layer = Encoder(2, num_heads=2, d_ff=12)
    ids = np.array([[0, 3, 4, 0], [5, 6, 7, 0]], "int32")
    embedding = keras.layers.Embedding(9, 8, mask_zero=True)
    mask = causal_mask(4) if causal else None
    x = to_numpy(embedding(ids)).astype("float32")
    expected = to_numpy(layer(x, combine_masks(mask, padding_mask(ids, 0))))
    for found in (
        layer(embedding(ids), mask),
        layer(x, mask, mask=ids != 0),
        layer(x, mask, x_mask=ids != 0),
    ):
        np.testing.assert_allclose(to_numpy(found), expected, atol=1e-5)
    assert np.abs(expected - to_numpy(layer(x, mask))).max() > 1e-4
