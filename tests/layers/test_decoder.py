import keras
import numpy as np
import pytest
from helpers import normal, randomise, to_numpy

from keras_transformer.layers import Decoder, DecoderLayer
from keras_transformer.masks import (
    causal_mask,
    combine_masks,
    padding_mask,
)

X, MEMORY = normal(2, 3, 8, seed=1), normal(2, 4, 8, seed=2)
MEMORY_MASK = np.array([[[True] * 4], [[True, True, False, False]]])


def test_number_of_weights():
    layer = DecoderLayer(num_heads=2, d_ff=12, d_k=3, d_v=5)
    layer(X, MEMORY)
    # 2 x 4 projections, 3 norms of 2 weights, 2 transformations with a bias.
    assert len(layer.weights) == 8 + 6 + 4
    decoder = Decoder(num_layers=3, num_heads=2, d_ff=12, d_k=3, d_v=5)
    decoder(X, MEMORY)
    assert decoder.count_params() == 3 * layer.count_params()
    assert len(decoder.weights) == 3 * 18


def test_layer_adds_no_causal_mask():
    layer = DecoderLayer(num_heads=2, d_ff=12)
    changed = np.concatenate([X[:, :2], X[:, 2:] + 1], axis=1)
    difference = to_numpy(layer(changed, MEMORY)) - to_numpy(layer(X, MEMORY))
    assert np.abs(difference[:, 0]).max() > 1e-4


def test_scores_respect_both_masks_and_are_those_of_each_layer():
    decoder = Decoder(2, num_heads=2, d_ff=12)
    decoder(X, MEMORY)
    randomise(decoder)
    mask = to_numpy(causal_mask(3)).astype(bool)
    masks = (mask, MEMORY_MASK)
    output, *scores = decoder(X, MEMORY, *masks, return_attention_scores=True)
    np.testing.assert_allclose(
        to_numpy(output), to_numpy(decoder(X, MEMORY, *masks)), atol=1e-5
    )
    for found, allowed in zip(scores, masks, strict=True):
        assert len(found) == 2
        for layer in map(to_numpy, found):
            np.testing.assert_allclose(layer.sum(axis=-1), 1, atol=1e-5)
            shown = np.broadcast_to(allowed[:, None], layer.shape)
            assert (layer[~shown] == 0).all() and (layer[shown] > 0).all()
    # The second layer's input is the output of the first.
    x = decoder.layers[0](X, MEMORY, *masks)
    _, *second = decoder.layers[1](
        x, MEMORY, *masks, return_attention_scores=True
    )
    for found, expected in zip(scores, second, strict=True):
        np.testing.assert_allclose(
            to_numpy(found[1]), to_numpy(expected), atol=1e-5
        )
    # The queries of cross-attention are the output of self-attention.
    _, plain = decoder.layers[0].cross_attention(
        X, MEMORY, MEMORY_MASK, return_attention_scores=True
    )
    assert np.abs(to_numpy(scores[1][0]) - to_numpy(plain)).max() > 1e-3


@pytest.mark.parametrize(
    "layer",
    (
        DecoderLayer(num_heads=2, d_ff=12),
        Decoder(2, num_heads=2, d_ff=12),
    ),
    ids=("layer", "decoder"),
)
def test_padding_that_keras_masks_is_not_attended_to(layer):
    source = np.array([[3, 4, 0, 0], [5, 6, 7, 0]], "int32")
    target = np.array([[0, 3, 4], [5, 0, 0]], "int32")
    inputs = [keras.Input((None,), dtype="int32") for _ in range(2)]
    embedding = keras.layers.Embedding(9, 8, mask_zero=True)
    x, memory = embedding(inputs[0]), embedding(inputs[1])
    causal = causal_mask(inputs[0])
    model = keras.Model(inputs, layer(x, memory, causal))
    x, memory = (
        to_numpy(embedding(ids)).astype("float32") for ids in (target, source)
    )
    found = to_numpy(model([target, source]))
    both = (causal_mask(3), padding_mask(target, 0))
    expected = layer(x, memory, combine_masks(*both), padding_mask(source, 0))
    np.testing.assert_allclose(found, to_numpy(expected), atol=1e-5)
    for masks in ((both[0], padding_mask(source, 0)), (combine_masks(*both),)):
        other = to_numpy(layer(x, memory, *masks))
        assert np.abs(found - other).max() > 1e-4
