import numpy as np
import pytest
from helpers import POLICIES, TOLERANCE, normal, randomise, to_numpy

from keras_transformer.layers import Decoder, DecoderLayer
from keras_transformer.masks import causal_mask, padding_mask

X, MEMORY = normal(2, 5, 8, seed=1), normal(2, 4, 8, seed=2)
MEMORY_MASK = np.array([[[True] * 4], [[True, True, False, False]]])


def test_every_sublayer_has_its_norm_and_every_layer_its_weights():
    layer = DecoderLayer(num_heads=2, d_ff=12, d_k=3, d_v=5)
    layer(X, MEMORY)
    # 2 times 4 projections, 3 norms with 2 weights, 2 transformations.
    assert len(layer.weights) == 8 + 6 + 4
    decoder = Decoder(num_layers=3, num_heads=2, d_ff=12, d_k=3, d_v=5)
    decoder(X, MEMORY)
    assert decoder.count_params() == 3 * layer.count_params()
    assert len(decoder.weights) == 3 * 18


def test_the_layer_adds_no_causal_mask():
    layer = DecoderLayer(num_heads=2, d_ff=12)
    changed = np.concatenate([X[:, :4], X[:, 4:] + 1], axis=1)
    difference = to_numpy(layer(changed, MEMORY)) - to_numpy(layer(X, MEMORY))
    assert np.abs(difference[:, 0]).max() > 1e-4


@pytest.mark.parametrize(
    ("steps", "policy"),
    (
        ((1, 1, 1, 1, 1), "float32"),
        *(((3, 2), policy) for policy in POLICIES),
    ),
)
def test_steps_with_a_cache_equal_one_call(steps, policy):
    decoder = Decoder(2, num_heads=2, d_ff=12, d_k=3, d_v=5, dtype=policy)
    decoder(X, MEMORY)
    randomise(decoder)
    mask = to_numpy(causal_mask(5)).astype(bool)
    expected = to_numpy(decoder(X, MEMORY, mask, MEMORY_MASK))

    cache, outputs, end = decoder.start(MEMORY), [], 0
    assert tuple(cache[0].self_key.shape) == (2, 2, 0, 3)
    assert tuple(cache[0].self_value.shape) == (2, 2, 0, 5)
    for step in steps:
        start, end = end, end + step
        output, cache = decoder.step(
            X[:, start:end], cache, mask[:, start:end, :end], MEMORY_MASK
        )
        outputs.append(to_numpy(output))
    assert tuple(cache[1].self_key.shape) == (2, 2, 5, 3)
    assert tuple(cache[1].cross_value.shape) == (2, 2, 4, 5)
    np.testing.assert_allclose(
        np.concatenate(outputs, axis=1), expected, atol=TOLERANCE[policy]
    )


def test_a_step_leaves_the_given_cache_as_it_was():
    decoder = Decoder(1, num_heads=2, d_ff=12)
    decoder(X, MEMORY)
    _, cache = decoder.step(X[:, :1], decoder.start(MEMORY))
    before = [to_numpy(tensor) for tensor in cache[0]]
    first, _ = decoder.step(X[:, 1:2], cache)
    again, _ = decoder.step(X[:, 1:2], cache)
    np.testing.assert_array_equal(to_numpy(first), to_numpy(again))
    for tensor, values in zip(cache[0], before, strict=True):
        np.testing.assert_array_equal(to_numpy(tensor), values)


def test_attention_weights_respect_both_masks():
    decoder = Decoder(2, num_heads=2, d_ff=12)
    decoder(X, MEMORY)
    randomise(decoder)
    mask = to_numpy(causal_mask(5)).astype(bool)
    own, cross = decoder.weights_of(X, MEMORY, mask, MEMORY_MASK)
    assert len(own) == len(cross) == 2
    for weights, allowed in ((own, mask), (cross, MEMORY_MASK)):
        for layer in map(to_numpy, weights):
            np.testing.assert_allclose(layer.sum(axis=-1), 1, atol=1e-6)
            shown = np.broadcast_to(allowed[:, None], layer.shape)
            assert (layer[~shown] == 0).all() and (layer[shown] > 0).all()
    # The second layer sees what the first one made of x.
    masks = (mask, MEMORY_MASK)
    x = decoder.layers[0](X, MEMORY, *masks)
    second_own, second_cross = decoder.layers[1].weights_of(x, MEMORY, *masks)
    np.testing.assert_allclose(to_numpy(own[1]), to_numpy(second_own))
    np.testing.assert_allclose(to_numpy(cross[1]), to_numpy(second_cross))
    # Cross-attention is asked by what self-attention gave.
    plain = decoder.layers[0].cross_attention.weights_of(X, MEMORY, MEMORY_MASK)
    assert np.abs(to_numpy(cross[0]) - to_numpy(plain)).max() > 1e-3


def test_masks():
    mask = to_numpy(causal_mask(3))
    np.testing.assert_array_equal(mask, [[[1, 0, 0], [1, 1, 0], [1, 1, 1]]])
    mask = to_numpy(padding_mask(np.array([[7, 9, 7], [9, 9, 9]]), pad_id=9))
    np.testing.assert_array_equal(mask, [[[1, 0, 1]], [[0, 0, 0]]])
