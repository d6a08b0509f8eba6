import warnings

import keras
import numpy as np
import numpy_reference as reference
import pytest
from helpers import (
    dtype_of,
    gradients,
    normal,
    to_numpy,
    tolerance,
)
from keras import ops

import keras_transformer as kt
from keras_transformer.layers import (
    MultiHeadAttention,
    attention_scores,
    scaled_dot_product_attention,
)
from keras_transformer.masks import causal_mask, padding_mask

DTYPES = ("float32", "bfloat16", "float16")
QUERY = normal(2, 3, 4, 8, seed=1)  # [B, H, T, d_k]
KEY = normal(2, 3, 5, 8, seed=2)
VALUE = normal(2, 3, 5, 6, seed=3)
MASK = np.random.default_rng(4).random((2, 3, 4, 5)) < 0.6
MASK[0, 0, 0] = [True, False, False, False, False]
MASK[1, 2, 3] = False


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mask", (None, MASK), ids=("all", "masked"))
def test_scores_are_a_float32_softmax_over_the_unmasked_keys(mask, dtype):
    query, key = ops.cast(QUERY, dtype), ops.cast(KEY, dtype)
    scores = attention_scores(query, key, mask)
    assert dtype_of(scores) == "float32"
    scores = to_numpy(scores)
    allowed = True if mask is None else mask
    expected = reference.attention_scores(
        QUERY.astype("float64"), KEY.astype("float64"), allowed
    )
    np.testing.assert_allclose(scores, expected, atol=tolerance(dtype, 8))
    shown = np.broadcast_to(allowed, scores.shape)
    assert (scores[~shown] == 0).all()
    np.testing.assert_allclose(
        scores.sum(axis=-1), shown.any(axis=-1), atol=1e-5
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_output_is_the_mean_of_the_values_weighted_by_the_scores(dtype):
    tensors = [ops.cast(x, dtype) for x in (QUERY, KEY, VALUE)]
    output, scores = scaled_dot_product_attention(*tensors, MASK)
    assert (dtype_of(output), dtype_of(scores)) == (dtype, "float32")
    expected = reference.attention(QUERY, KEY, VALUE, MASK)
    np.testing.assert_allclose(
        to_numpy(output), expected, atol=tolerance(dtype, 8)
    )
    assert (to_numpy(output)[1, 2, 3] == 0).all()
    np.testing.assert_allclose(
        to_numpy(scores),
        to_numpy(attention_scores(*tensors[:2], MASK)),
        atol=tolerance(dtype, 8),
    )


def test_large_products_do_not_overflow():
    scores = to_numpy(attention_scores(QUERY * 1e4, KEY * 1e4, MASK))
    assert np.isfinite(scores).all()
    # The largest product takes everything.
    np.testing.assert_allclose(
        scores.max(axis=-1), MASK.any(axis=-1), atol=1e-5
    )


def test_attention_to_a_single_key_gives_1_without_a_warning():
    attention = MultiHeadAttention(2)
    x = normal(2, 1, 8)
    mask = np.array([[[True]], [[False]]])
    attention(x, x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, scores = attention(x, x, return_attention_scores=True)
        _, masked = attention(x, x, mask, return_attention_scores=True)
    np.testing.assert_array_equal(to_numpy(scores), np.ones((2, 2, 1, 1)))
    np.testing.assert_array_equal(to_numpy(masked)[:, 0, 0, 0], [1, 0])

    def loss():
        return ops.sum(ops.square(attention(x, x)))

    query, key, value, _ = gradients(loss, attention.trainable_variables)
    assert (query == 0).all() and (key == 0).all() and (value != 0).any()


def test_masked_keys_have_no_influence():
    attention = MultiHeadAttention(2)
    query, memory = normal(2, 3, 8, seed=1), normal(2, 4, 8, seed=2)
    mask = np.array([[[True, True, True, False]], [[True, False, False, True]]])
    changed = np.where(mask.swapaxes(1, 2), memory, 1e4).astype("float32")
    np.testing.assert_array_equal(
        to_numpy(attention(query, memory, mask)),
        to_numpy(attention(query, changed, mask)),
    )


@pytest.mark.parametrize(
    "shape", ((2, 1, 4), (1, 3, 4), (2, 3, 4), (1, 1, 4), (3, 4), (3, 1))
)
def test_masks_are_broadcast(shape):
    # As many heads as queries: a mask must not be taken for one of heads.
    attention = MultiHeadAttention(3, d_k=4, d_v=4)
    query, memory = normal(2, 3, 8, seed=1), normal(2, 4, 8, seed=2)
    mask = np.random.default_rng(0).random(shape) < 0.5
    np.testing.assert_allclose(
        to_numpy(attention(query, memory, mask)),
        to_numpy(attention(query, memory, np.broadcast_to(mask, (2, 3, 4)))),
        atol=1e-5,
    )


def test_memory_mask_is_combined_with_the_attention_mask():
    attention = MultiHeadAttention(2)
    query, memory = normal(2, 3, 8, seed=1), normal(2, 4, 8, seed=2)
    memory_mask = np.array([[True, True, True, False], [True] * 4])
    causal = np.tril(np.ones((3, 4), bool))
    for mask, both in (
        (None, memory_mask[:, None]),
        (causal, memory_mask[:, None] & causal),
    ):
        np.testing.assert_allclose(
            to_numpy(attention(query, memory, mask, memory_mask)),
            to_numpy(attention(query, memory, both)),
            atol=1e-5,
        )


def test_padding_that_keras_masks_is_not_attended_to():
    ids = np.array([[3, 4, 0, 0], [5, 6, 7, 0]], "int32")
    queries = keras.Input((3, 8))
    words = keras.Input((None,), dtype="int32")
    embedding = keras.layers.Embedding(9, 8, mask_zero=True)
    attention = MultiHeadAttention(2)
    model = keras.Model([queries, words], attention(queries, embedding(words)))
    x = normal(2, 3, 8)
    memory = to_numpy(embedding(ids)).astype("float32")
    expected = attention(x, memory, padding_mask(ids, 0))
    np.testing.assert_allclose(
        to_numpy(model([x, ids])), to_numpy(expected), atol=1e-5
    )
    assert np.abs(to_numpy(attention(x, memory) - expected)).max() > 1e-3


def test_same_output_as_keras_with_the_same_weights():
    theirs = keras.layers.MultiHeadAttention(2, key_dim=4, use_bias=False)
    ours = MultiHeadAttention(2)
    query, memory = normal(2, 3, 8, seed=1), normal(2, 5, 8, seed=2)
    theirs(query, memory), ours(query, memory)
    *projections, output = theirs.get_weights()
    ours.set_weights(
        [kernel.reshape(8, 8) for kernel in (*projections, output)]
    )
    mask = np.array([[True] * 4 + [False], [True] * 5])
    expected, expected_scores = theirs(
        query, memory, value_mask=mask, return_attention_scores=True
    )
    found, scores = ours(
        query, memory, memory_mask=mask, return_attention_scores=True
    )
    for a, b in ((found, expected), (scores, expected_scores)):
        np.testing.assert_allclose(to_numpy(a), to_numpy(b), atol=1e-5)
    np.testing.assert_allclose(
        to_numpy(ours(query, query, causal_mask(query))),
        to_numpy(theirs(query, query, use_causal_mask=True)),
        atol=1e-5,
    )


@pytest.mark.parametrize(
    ("widths", "shapes"),
    (
        ({}, [(8, 8), (6, 8), (6, 8), (8, 8)]),
        (dict(d_k=3, d_v=5), [(8, 6), (6, 6), (6, 10), (10, 8)]),
        (dict(d_k=1), [(8, 2), (6, 2), (6, 8), (8, 8)]),
    ),
)
def test_projections_have_no_bias_and_any_width(widths, shapes):
    attention = MultiHeadAttention(2, **widths)
    output = attention(normal(2, 3, 8), normal(2, 4, 6))
    assert [tuple(weight.shape) for weight in attention.weights] == shapes
    assert tuple(output.shape) == (2, 3, 8)


def test_projections_start_as_columns_of_one_matrix():
    attention = MultiHeadAttention(4)
    attention.build((1, 1, 64), (1, 1, 64))
    query, key, value, output = map(to_numpy, attention.weights)
    together = (6 / (64 + 3 * 64)) ** 0.5  # Glorot's limit for all three
    for kernel, limit in (
        (query, together),
        (key, together),
        (value, together),
        (output, (6 / (64 + 64)) ** 0.5),
    ):
        assert 0.98 * limit < np.abs(kernel).max() <= limit
        assert kernel.std() == pytest.approx(limit / 3**0.5, rel=0.03)
    assert not (query == key).any()


@pytest.mark.parametrize(
    ("masks", "received"),
    (
        ((np.ones((2, 4), bool),), r"\[2, 4\]"),
        ((np.ones((2, 3, 5), bool),), r"\[2, 3, 5\]"),
        ((np.ones((2, 2, 3, 4), bool),), r"\[2, 2, 3, 4\]"),
        ((np.ones(4, bool),), r"\[4\]"),
        # An additive mask, which would mean the opposite.
        ((np.zeros((3, 4), "float32"),), "float32"),
        ((None, np.ones((2, 3, 1), bool)), "memory_mask"),
    ),
)
def test_masks_of_a_wrong_shape_or_dtype(masks, received):
    attention = MultiHeadAttention(2)
    with pytest.raises(ValueError, match=received):
        attention(normal(2, 3, 8), normal(2, 4, 8), *masks)


@pytest.mark.parametrize("window", (None, 3))
def test_lengths_and_batches_of_0(window):
    config = kt.TransformerConfig(
        vocab_size=9,
        d_model=8,
        num_heads=2,
        num_layers=1,
        d_ff=8,
        attention_window=window,
    )
    model = kt.Transformer(config)
    for batch, source, target in ((0, 3, 4), (2, 0, 4), (2, 3, 0)):
        ids = (np.ones((batch, n), "int32") for n in (source, target))
        logits = model(dict(zip(("source", "target"), ids, strict=True)))
        assert tuple(logits.shape) == (batch, target, 9)
        assert np.isfinite(to_numpy(logits)).all()
