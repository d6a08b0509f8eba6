"""Attention in blocks, compared with attention over all n^2 pairs."""

import keras
import numpy as np
import numpy_reference as reference
import pytest
from helpers import (
    compiled,
    dtype_of,
    gradients,
    normal,
    randomise,
    to_numpy,
    tolerance,
)
from keras import ops

from keras_transformer.layers import (
    Decoder,
    Encoder,
    MultiHeadAttention,
    RestrictedSelfAttention,
    restricted_dot_product_attention,
)
from keras_transformer.masks import padding_mask

B, H, D = 2, 2, 8
CAUSAL = pytest.mark.parametrize("causal", (False, True), ids=("", "causal"))


def window(length, size, causal):
    """The mask of windows, pair by pair, from the definition."""
    mask = np.zeros((length, length), bool)
    for i in range(length):
        # An even window has one more position before than after.
        last = i if causal else i + (size - 1) // 2
        mask[i, max(last - size + 1, 0) : last + 1] = True
    return mask


def masks_of(length, kind):
    """An attention mask, a memory mask, and both as `[B, n, n]`."""
    random = np.random.default_rng(0)
    pairs = random.random((B, length, length)) < 0.6
    keys = random.random((B, length)) < 0.7
    # Windows without any key.
    pairs[:, 0] = False
    keys[0, : length // 2 + 1] = False
    attention = {
        "none": None,
        "keys": None,
        "pairs": pairs,
        "pairs of all": pairs[0],
        "padding": keys[:, None],
        "queries": pairs[:, :, :1],
        "both": pairs,
    }[kind]
    memory = keys if kind in ("keys", "both") else None
    both = np.ones((B, length, length), bool)
    if attention is not None:
        both &= attention
    if memory is not None:
        both &= memory[:, None]
    return attention, memory, both


def check_blocks(length, size, causal, kind):
    query, key = normal(B, H, length, 4, seed=1), normal(B, H, length, 4)
    value = normal(B, H, length, 6, seed=3)
    attention, memory, both = masks_of(length, kind)
    mask = (both & window(length, size, causal))[:, None]

    @compiled
    def attend(*tensors):
        return restricted_dot_product_attention(
            *tensors, size, causal, attention, memory
        )

    found = attend(*map(ops.convert_to_tensor, (query, key, value)))
    expected = reference.attention(query, key, value, mask)
    np.testing.assert_allclose(to_numpy(found), expected, atol=1e-5)
    hidden = ~mask.any(axis=-1)[:, 0]
    assert hidden.any() or kind == "none"
    assert (to_numpy(found).swapaxes(1, 2)[hidden] == 0).all()


@CAUSAL
@pytest.mark.parametrize(
    ("length", "size"),
    (
        (1, 7),
        (5, 1),
        (48, 3),  # all pairs
        (49, 3),  # blocks
        (64, 16),
        (65, 16),
        (80, 33),
        (81, 40),
        (30, 30),
        (20, 500),
    ),
)
def test_any_length_and_window(length, size, causal):
    check_blocks(length, size, causal, "both")


@pytest.mark.parametrize(
    "kind", ("none", "keys", "pairs", "pairs of all", "padding", "queries")
)
def test_any_mask(kind):
    check_blocks(50, 8, False, kind)


def test_an_empty_input():
    x = ops.zeros((B, H, 0, 4))
    assert restricted_dot_product_attention(x, x, x, 3).shape == (B, H, 0, 4)


def test_lengths_that_are_unknown_when_a_model_is_built():
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(9, D)(ids)
    layer = Encoder(1, 2, 12, attention_window=4)
    model = keras.Model(ids, layer(x, padding_mask(ids, 0)))
    random = np.random.default_rng(0)
    for length in (1, 60):
        batch = random.integers(0, 9, (B, length)).astype("int32")
        embedded = model.layers[1](batch)
        expected, _ = layer(
            embedded, batch[:, None] != 0, return_attention_scores=True
        )
        found = keras.ops.convert_to_tensor(model.predict(batch, verbose=0))
        np.testing.assert_allclose(
            to_numpy(found), to_numpy(expected), atol=1e-5
        )


def test_no_tensor_has_all_pairs():
    """Memory grows with the length, not with its square."""

    def largest(length):
        attention, sizes = RestrictedSelfAttention(1, 4), []
        x = ops.zeros((1, length, 2))
        attention.build(x.shape, x.shape)
        original = ops.matmul

        def matmul(*arguments):
            product = original(*arguments)
            sizes.append(int(np.prod(product.shape)))
            return product

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ops, "matmul", matmul)
            attention.call(x, x)
        return max(sizes)

    assert largest(640) == 2 * largest(320) < 640 * 640 / 10


@pytest.mark.parametrize(
    ("policy", "causal"),
    (("float32", True), ("mixed_bfloat16", False)),
    ids=("causal", "16 bits"),
)
def test_output_and_scores_are_full_attention_with_a_mask(policy, causal):
    arguments = dict(num_heads=H, d_k=3, d_v=5, dtype=policy)
    restricted = RestrictedSelfAttention(**arguments, window=6, causal=causal)
    full = MultiHeadAttention(**arguments)
    x = normal(B, 57, D)
    for layer in (restricted, full):
        layer(x, x)
        randomise(layer)
    mask, memory_mask, both = masks_of(57, "both")
    both &= window(57, 6, causal)
    found = restricted(x, x, mask, memory_mask)
    output, scores = restricted(
        x, x, mask, memory_mask, return_attention_scores=True
    )
    expected, expected_scores = full(x, x, both, return_attention_scores=True)
    assert dtype_of(found) == restricted.compute_dtype
    for a, b in (
        (output, expected),
        (scores, expected_scores),
        (found, expected),
    ):
        np.testing.assert_allclose(
            to_numpy(a), to_numpy(b), atol=tolerance(policy, 8)
        )


@CAUSAL
def test_gradients_equal_full_attention_with_a_mask(causal):
    restricted = RestrictedSelfAttention(H, 6, d_v=5, causal=causal)
    full = MultiHeadAttention(H, d_v=5)
    x = keras.Variable(normal(B, 57, D))
    above = normal(B, 57, D, seed=7)
    mask, memory_mask, both = masks_of(57, "both")
    both &= window(57, 6, causal)
    found = []
    for layer, masks in (
        (restricted, dict(attention_mask=mask, memory_mask=memory_mask)),
        (full, dict(attention_mask=both)),
    ):
        layer.build((B, 57, D), (B, 57, D))
        randomise(layer)

        def loss(layer=layer, masks=masks):
            value = ops.convert_to_tensor(x)
            return ops.sum(ops.multiply(above, layer(value, value, **masks)))

        found.append(gradients(loss, [x, *layer.trainable_variables]))
    assert len(found[0]) == 5
    for gradient, expected in zip(*found, strict=True):
        assert np.abs(expected).max() > 0.1
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("stack", (Encoder, Decoder))
def test_stacks_restrict_self_attention_only(stack):
    restricted = stack(1, 2, 12, attention_window=4)
    full = stack(1, 2, 12)
    x, memory = normal(B, 51, D, seed=1), normal(B, 19, D, seed=2)
    inputs = (x, memory) if stack is Decoder else (x,)
    for layer in (restricted, full):
        layer(*inputs)
        randomise(layer)
    padding = masks_of(51, "padding")[0]
    mask = padding & window(51, 4, causal=stack is Decoder)
    found = restricted(*inputs, padding)
    expected = full(*inputs, mask)
    np.testing.assert_allclose(to_numpy(found), to_numpy(expected), atol=1e-5)


def test_misuse_is_an_error():
    layer = RestrictedSelfAttention(2, 3)
    with pytest.raises(ValueError, match=r"\(3, 4\)"):
        layer(normal(2, 3, D), normal(2, 4, D))
    subclass = type("Other", (MultiHeadAttention,), {})
    with pytest.raises(ValueError, match="MultiHeadAttention"):
        Encoder(1, 2, 12, attention_window=3, attention_class=subclass)
