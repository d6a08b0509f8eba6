"""Decoding step by step computes what decoding at once computes."""

import dataclasses
import functools

import keras
import numpy as np
import pytest
from helpers import (
    TENSORFLOW_ONLY,
    check_examples,
    randomise,
    to_numpy,
    tolerance,
)
from keras import ops

import keras_transformer as kt
from keras_transformer.decoding import StepDecoder

# The second source is padded.
SOURCE = np.array([[7, 8, 9, 10, 3], [11, 12, 3, 0, 0]], "int32")
SMALL = dict(
    vocab_size=13, num_layers=2, d_model=8, d_ff=16, num_heads=2, max_length=8
)
CONFIG = kt.TransformerConfig(**SMALL)


def random_model(config=CONFIG, policy="float32", **classes):
    config = dataclasses.replace(config, **classes)
    model = kt.Transformer(config, dtype=policy)
    randomise(model)
    return model


def decode_both(model, beam_size, steps=3, source=SOURCE):
    """Logits `[steps, B, K, V]` step by step and at once, and the cache.

    Hypotheses change places, are dropped and are continued more than once.
    """
    random = np.random.default_rng(0)
    batch = len(source)
    decoder = StepDecoder(model, steps, beam_size)
    cache = decoder.init_cache(model.encode(source))
    hypotheses = np.zeros((batch, beam_size, steps), "int32")
    found, decoded = [], []
    for index in range(steps):
        parents = random.integers(0, beam_size, (batch, beam_size), "int32")
        ids = random.integers(2, 13, (batch, beam_size), "int32")
        if index:
            hypotheses = np.take_along_axis(
                hypotheses, parents[..., None], axis=1
            )
        hypotheses[:, :, index] = ids
        decoded.append(hypotheses.copy())
        logits, cache = decoder.decode_step(
            ops.convert_to_tensor(ids),
            ops.convert_to_tensor(parents),
            cache,
            ops.convert_to_tensor(index, "int32"),
        )
        found.append(to_numpy(logits))
    sources = np.tile(np.repeat(source, beam_size, axis=0), (steps, 1))
    at_once = model.decode(
        np.reshape(decoded, (-1, steps)), model.encode(sources)
    )
    shape = (steps, batch, beam_size, steps, -1)
    at_once = to_numpy(at_once).reshape(shape)
    # Later positions, which are still padding, have no influence.
    expected = [at_once[index, :, :, index] for index in range(steps)]
    return np.stack(found), np.stack(expected), cache


def check(model, beam_size=3, atol=1e-5, **options):
    found, expected, cache = decode_both(model, beam_size, **options)
    assert found.std() > 0.1
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=atol)
    return found, cache


@pytest.fixture(scope="module")
def plain():
    """Logits of `random_model()`, which are checked."""
    return check(random_model())[0]


@TENSORFLOW_ONLY
def test_examples_of_the_docstrings():
    from keras_transformer.decoding import step

    check_examples(step)


# test_configurations.py has each field alone.
VARIANTS = {
    "biases": dict(
        attention_bias=True,
        d_k=3,
        d_v=5,
        activation="swish",
        layer_norm_epsilon=0.5,
        output_bias=True,
        position_layout="halves",
        position_endpoint=True,
        position_offset=2,
    ),
    "pre-norm": dict(
        num_heads=1,
        norm_first=True,
        layer_norm_epsilon=0.5,
        tied_embeddings="none",
        source_vocab_size=15,
        output_bias=True,
    ),
    "decoder": dict(
        decoder_layers=1,
        decoder_heads=4,
        decoder_d_ff=12,
        embedding_scale=1.0,
        positional_encoding="learned",
    ),
}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(
            changes, id=name, marks=() if name == "biases" else TENSORFLOW_ONLY
        )
        for name, changes in VARIANTS.items()
    ],
)
def test_every_configuration(changes):
    check(random_model(kt.TransformerConfig(**{**SMALL, **changes})))


@TENSORFLOW_ONLY
@pytest.mark.parametrize(
    ("policy", "beam_size"),
    [
        ("mixed_bfloat16", 4),
        ("bfloat16", 1),
    ],
)
def test_every_dtype_policy(policy, beam_size):
    atol = tolerance(policy, 32)
    check(random_model(CONFIG, policy), beam_size, atol)


def test_the_cache_grows_by_the_hypotheses():
    source = np.where([[True], [False]], SOURCE, 0)  # one is all padding
    _, cache = check(random_model(), beam_size=4, source=source)
    for key, value in cache.layers:
        assert tuple(key.shape) == tuple(value.shape) == (2, 2, 12, 4)
    assert (to_numpy(cache.ancestry).sum(axis=-1) == 3).all()
    # The memory is neither repeated nor projected again.
    for pair in cache.memory:
        assert [tuple(x.shape) for x in pair] == [(2, 2, 5, 4)] * 2


@pytest.mark.parametrize(
    ("window", "beam_size"),
    [pytest.param(1, 3, marks=TENSORFLOW_ONLY), (4, 2)],
)
def test_a_window_limits_the_cache(window, beam_size):
    model = random_model(dataclasses.replace(CONFIG, attention_window=window))
    _, cache = check(model, beam_size, steps=6)
    kept = min(window, 6)
    for key, value in cache.layers:
        shape = (2, 2, kept * beam_size, 4)
        assert tuple(key.shape) == tuple(value.shape) == shape
    assert (to_numpy(cache.ancestry).sum(axis=-1) == kept).all()


def logits_of_step(decoder, ids, index, cache, kept, attend):
    """Logits for a caller that stores keys and values itself."""
    x = decoder.embed(ops.convert_to_tensor(ids), index)
    layers = zip(decoder.layers, kept, cache.memory, strict=True)
    for layer, past, memory in layers:
        attend_to_self = functools.partial(attend, layer, past)
        x = layer(x, attend_to_self, memory, cache.memory_mask)
    return decoder.logits(x)


def test_keys_and_values_of_a_fixed_length():
    model, length = random_model(), 4
    decoder = StepDecoder(model, length, 1)
    cache = decoder.init_cache(model.encode(SOURCE))
    kept = [
        [np.full((2, 2, length, 4), 9.0, "float32") for _ in pair]
        for pair in cache.layers
    ]
    ids = np.array([[[5], [6]], [[7], [8]], [[9], [10]]], "int32")
    for index, step_ids in enumerate(ids):
        mask = np.zeros((2, 1, 1, length), bool)
        mask[..., : index + 1] = True

        def attend(layer, past, x, index=index, mask=mask):
            query, *new = layer.self_attention.project(x)
            for values, value in zip(past, new, strict=True):
                values[:, :, index] = to_numpy(value)[:, :, 0]
            pair = tuple(map(ops.convert_to_tensor, past))
            mask = ops.convert_to_tensor(mask)
            return layer.self_attention.attend(query, pair, mask)

        logits = logits_of_step(decoder, step_ids, index, cache, kept, attend)
    target = ids[:, :, 0].T
    expected = to_numpy(model.decode(target, model.encode(SOURCE)))[:, -1]
    np.testing.assert_allclose(to_numpy(logits)[:, 0], expected, atol=1e-5)


def test_own_keys_and_masks_that_are_added():
    """The past stays where it is, and the caller adds the new ones later."""
    model = random_model()
    decoder = StepDecoder(model, 2, 2)
    cache = decoder.init_cache(model.encode(SOURCE))
    ids = ops.convert_to_tensor([[5, 6], [7, 8]], "int32")
    parents = ops.convert_to_tensor([[0, 0], [0, 0]], "int32")
    _, cache = decoder.decode_step(ids, parents, cache, 0)
    parents = ops.convert_to_tensor([[1, 0], [1, 1]], "int32")
    expected, _ = decoder.decode_step(ids, parents, cache, 1)

    is_past = np.equal(to_numpy(parents)[:, None, :, None], [0, 1])
    mask, memory = (
        ops.convert_to_tensor(np.where(x, 0, -1e9).astype("float32"))
        for x in (is_past, to_numpy(cache.memory_mask))
    )

    def attend(layer, past, x):
        query, *new = layer.self_attention.project(x)
        return layer.self_attention.attend(query, past, mask, own=new)

    cache = cache._replace(memory_mask=memory)
    found = logits_of_step(decoder, ids, 1, cache, cache.layers, attend)
    np.testing.assert_allclose(to_numpy(found), to_numpy(expected), atol=1e-5)


@keras.saving.register_keras_serializable()
class GatedFeedForward(kt.layers.FeedForward):
    def call(self, x):
        return super().call(x) * ops.sigmoid(x)


@keras.saving.register_keras_serializable()
class PreNorm(kt.layers.Residual):
    needs_final_norm = True

    def call(self, x, sublayer, training=None):
        return x + 2.0 * sublayer(self.norm(x))


@keras.saving.register_keras_serializable()
class SharpAttention(kt.layers.MultiHeadAttention):
    def attend(self, query, key, *arguments):
        return super().attend(query, 3.0 * key, *arguments)


class CappedLogits(kt.Transformer):
    def logits(self, states):
        return ops.tanh(super().logits(states))


def test_parts_of_other_classes_are_called(plain):
    model = random_model(
        feed_forward_class=GatedFeedForward,
        residual_class=PreNorm,
        attention_class=SharpAttention,
    )
    found, _ = check(model, atol=1e-4)
    assert np.abs(found - plain).max() > 0.1


@TENSORFLOW_ONLY
def test_logits_of_a_subclass():
    model = CappedLogits(CONFIG)
    randomise(model)
    assert model.output_projection() is None
    check(model)


@TENSORFLOW_ONLY
def test_a_subclass_may_forbid_tokens():
    class Forbidding(kt.Transformer):
        def logits(self, states):
            is_forbidden = ops.arange(self.config.vocab_size) == 5
            return ops.where(is_forbidden, -np.inf, super().logits(states))

    StepDecoder(Forbidding(CONFIG), 3, 1)


class Doubled(kt.Transformer):
    def call(self, inputs, training=None):
        return 2.0 * super().call(inputs, training)


@keras.saving.register_keras_serializable()
class DoubledAttention(kt.layers.MultiHeadAttention):
    def call(self, query, memory, *masks, **named):
        return 2.0 * super().call(query, memory, *masks, **named)


class SkippingDecoder(kt.layers.Decoder):
    def call(self, x, memory, *masks, **named):
        return x + super().call(x, memory, *masks, **named)


class ParallelLayer(kt.layers.DecoderLayer):
    def call(self, x, memory, *masks, **named):
        return x + super().call(x, memory, *masks, **named)


class ScaledPositions(kt.layers.SinusoidalPositionalEncoding):
    def call(self, x):
        return 2.0 * super().call(x)


def model_with(part):
    if part is Doubled:
        return Doubled(CONFIG)
    if part is DoubledAttention:
        return random_model(attention_class=part)
    model = random_model()
    if part is SkippingDecoder:
        model.decoder.__class__ = part
    elif part is ParallelLayer:
        model.decoder.layers[1].__class__ = part
    else:
        model.target_positions.__class__ = part
    return model


@TENSORFLOW_ONLY
@pytest.mark.parametrize(
    "part",
    (
        *(Doubled, DoubledAttention),
        *(SkippingDecoder, ParallelLayer, ScaledPositions),
    ),
)
def test_a_method_that_steps_leave_out_raises(part):
    with pytest.raises(ValueError, match=part.__name__):
        StepDecoder(model_with(part), 3, 1)


@TENSORFLOW_ONLY
def test_layers_that_were_changed(plain):
    """LoRA, quantization, and a different activation."""
    model = random_model()
    inner = model.decoder.layers[1].feed_forward.inner
    inner.activation = keras.activations.tanh
    inner.enable_lora(2)
    randomise(inner)
    key = model.decoder.layers[0].self_attention.key_projection
    key.enable_lora(2)
    randomise(key)
    found, _ = check(model)
    assert np.abs(found - plain).max() > 0.1
    if keras.backend.backend() == "tensorflow":
        value = model.decoder.layers[1].cross_attention.value_projection
        value.quantize("int8")
        check(model, atol=1e-3)
