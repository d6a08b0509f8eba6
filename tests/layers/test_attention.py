import numpy as np
import numpy_reference as reference
import pytest
from helpers import POLICIES, dtype_of, normal, randomise, to_numpy
from keras import ops

from keras_transformer.layers import (
    MultiHeadAttention,
    attention_weights,
    scaled_dot_product_attention,
)

DTYPES = ("float32", "bfloat16", "float16")
QUERY = normal(2, 3, 4, 8, seed=1)  # [B, H, T, d_k]
KEY = normal(2, 3, 5, 8, seed=2)
VALUE = normal(2, 3, 5, 6, seed=3)
MASK = np.random.default_rng(4).random((2, 3, 4, 5)) < 0.6
MASK[0, 0, 0] = [True, False, False, False, False]
MASK[1, 2, 3] = False


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mask", (None, MASK), ids=("all", "masked"))
def test_weights_are_a_float32_softmax_over_what_is_attended_to(mask, dtype):
    query, key = ops.cast(QUERY, dtype), ops.cast(KEY, dtype)
    weights = attention_weights(query, key, mask)
    assert dtype_of(weights) == "float32"
    weights = to_numpy(weights)
    allowed = True if mask is None else mask
    expected = reference.attention_weights(
        QUERY.astype("float64"), KEY.astype("float64"), allowed
    )
    # The scores of half precision are rounded to 8 or 11 bits.
    tolerance = {"float32": 1e-6, "bfloat16": 2e-2, "float16": 2e-3}[dtype]
    np.testing.assert_allclose(weights, expected, atol=tolerance)
    shown = np.broadcast_to(allowed, weights.shape)
    assert (weights[~shown] == 0).all()
    some = shown.any(axis=-1)
    np.testing.assert_allclose(weights.sum(axis=-1), some, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_attention_weighs_the_values(dtype):
    tensors = [ops.cast(x, dtype) for x in (QUERY, KEY, VALUE)]
    output = scaled_dot_product_attention(*tensors, MASK)
    assert dtype_of(output) == dtype
    expected = reference.attention(QUERY, KEY, VALUE, MASK)
    tolerance = {"float32": 1e-5, "bfloat16": 5e-2, "float16": 5e-3}[dtype]
    np.testing.assert_allclose(to_numpy(output), expected, atol=tolerance)
    assert (to_numpy(output)[1, 2, 3] == 0).all()


def test_large_scores_do_not_overflow():
    weights = to_numpy(attention_weights(QUERY * 1e4, KEY * 1e4, MASK))
    assert np.isfinite(weights).all()
    # So large, the greatest score takes all.
    np.testing.assert_allclose(weights.max(axis=-1), MASK.any(axis=-1))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_query_whose_keys_are_all_masked_gives_zero(policy):
    attention = MultiHeadAttention(2, dtype=policy)
    x, mask = normal(2, 4, 8), np.ones((2, 4, 4), bool)
    mask[1, 2] = False
    output = to_numpy(attention(x, x, mask))
    assert (output[1, 2] == 0).all()
    assert (np.abs(output).max(axis=-1) > 0).sum() == 7


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
    "shape", ((2, 1, 4), (1, 3, 4), (2, 3, 4), (1, 1, 4), (3, 4))
)
def test_masks_are_broadcast(shape):
    # As many heads as queries: a mask must not be taken for one of heads.
    attention = MultiHeadAttention(3, d_k=4, d_v=4)
    query, memory = normal(2, 3, 8, seed=1), normal(2, 4, 8, seed=2)
    mask = np.random.default_rng(0).random(shape) < 0.5
    np.testing.assert_allclose(
        to_numpy(attention(query, memory, mask)),
        to_numpy(attention(query, memory, np.broadcast_to(mask, (2, 3, 4)))),
        atol=1e-6,
    )


@pytest.mark.parametrize(
    ("widths", "shapes"),
    (
        ({}, [(8, 8), (6, 8), (6, 8), (8, 8)]),
        (dict(d_k=3, d_v=5), [(8, 6), (6, 6), (6, 10), (10, 8)]),
        (dict(d_k=1), [(8, 2), (6, 2), (6, 8), (8, 8)]),
    ),
)
def test_projections_have_no_bias_and_free_widths(widths, shapes):
    attention = MultiHeadAttention(2, **widths)
    output = attention(normal(2, 3, 8), normal(2, 4, 6))
    assert [tuple(weight.shape) for weight in attention.weights] == shapes
    assert tuple(output.shape) == (2, 3, 8)


def test_projections_begin_as_columns_of_one_matrix():
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


def test_memory_can_be_projected_beforehand():
    attention = MultiHeadAttention(2, d_k=3, d_v=5)
    query, memory = normal(2, 3, 8, seed=1), normal(2, 4, 8, seed=2)
    mask = np.array([[[True, True, True, False]]] * 2)
    expected = to_numpy(attention(query, memory, mask))
    key, value = attention.project_memory(memory)
    assert tuple(key.shape) == (2, 2, 4, 3)
    assert tuple(value.shape) == (2, 2, 4, 5)
    output = attention.attend(query, key, value, mask)
    np.testing.assert_array_equal(to_numpy(output), expected)


@pytest.mark.parametrize("policy", POLICIES)
def test_weights_of_each_head(policy):
    attention = MultiHeadAttention(2, d_k=3, dtype=policy)
    query, memory = normal(2, 3, 8, seed=1), normal(2, 4, 8, seed=2)
    mask = np.array([[[True, True, True, False]], [[False] * 4]])
    attention(query, memory)
    randomise(attention)
    weights = attention.weights_of(query, memory, mask)
    assert dtype_of(weights) == "float32"
    projections = (attention.query_projection, attention.key_projection)
    for head in range(2):
        columns = slice(3 * head, 3 * head + 3)
        projected = [
            x @ to_numpy(projection.kernel)[:, columns]
            for x, projection in zip((query, memory), projections, strict=True)
        ]
        np.testing.assert_allclose(
            to_numpy(weights)[:, head],
            reference.attention_weights(*projected, mask),
            atol=1e-6 if policy == "float32" else 2e-2,
        )
