import keras
import numpy as np
from helpers import normal, randomise, to_numpy

from keras_transformer.layers import Decoder, DecoderLayer
from keras_transformer.masks import (
    causal_mask,
    combine_masks,
    padding_mask,
)

X, MEMORY = normal(2, 3, 8, seed=1), normal(2, 4, 8, seed=2)
MEMORY_MASK = np.array([[[True] * 4], [[True, True, False, False]]])


def test_layer_adds_no_causal_mask():
    layer = DecoderLayer(num_heads=2, d_ff=12)
    changed = np.concatenate([X[:, :2], X[:, 2:] + 1], axis=1)
    difference = to_numpy(layer(changed, MEMORY)) - to_numpy(layer(X, MEMORY))
    assert np.abs(difference[:, 0]).max() > 1e-4


def test_scores_respect_both_masks_and_come_from_each_layer():
    decoder = Decoder(2, num_heads=2, d_ff=12)
    decoder(X, MEMORY)
    randomise(decoder)
    masks = (np.tri(3, dtype=bool)[None], MEMORY_MASK)
    _, *scores = decoder(X, MEMORY, *masks, return_attention_scores=True)
    for found, allowed in zip(scores, masks, strict=True):
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


def test_padding_that_keras_masks_is_not_attended_to():
    layer = Decoder(2, num_heads=2, d_ff=12)
    source = np.array([[3, 4, 0, 0], [5, 6, 7, 0]], "int32")
    target = np.array([[0, 3, 4], [5, 0, 0]], "int32")
    embedding = keras.layers.Embedding(9, 8, mask_zero=True)
    found = layer(embedding(target), embedding(source), causal_mask(3))
    x, memory = (
        to_numpy(embedding(ids)).astype("float32") for ids in (target, source)
    )
    masks = (
        combine_masks(causal_mask(3), padding_mask(target, 0)),
        padding_mask(source, 0),
    )
    expected = layer(x, memory, *masks)
    np.testing.assert_allclose(to_numpy(found), to_numpy(expected), atol=1e-5)
