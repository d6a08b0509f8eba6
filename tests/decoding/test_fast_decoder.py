"""The fast decoder computes what `Transformer.decode_step` computes."""

import dataclasses
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.decoding.fast_decoder import FastDecoder
from keras_transformer.inference.pipeline import Pipeline
from keras_transformer.presets import PRESETS

STEPS = 3
# [2, 5]: the second source is padded.
SOURCE = np.array([[7, 8, 9, 10, 3], [11, 12, 3, 0, 0]], "int32")


def shapes():
    """The decoder layers of all presets, each once: `{config: preset}`."""
    found = {}
    for name in PRESETS:
        config = kt.TransformerConfig.from_preset(name)
        config = dataclasses.replace(
            config, num_layers=1, vocab_size=13, max_length=16, dropout=0.1
        )
        found.setdefault(config, name)
    return found


def random_model(config, dtype="float32"):
    """A model in which gamma, beta and biases are not 1 and 0 either."""
    keras.utils.set_random_seed(0)
    model = kt.Transformer(config, dtype=dtype)
    random = np.random.default_rng(0)
    for weight in model.weights:
        if len(weight.shape) == 1:
            noise = random.normal(0, 0.1, weight.shape)
            weight.assign(weight.numpy() + noise)
    return model


def decode(decoder, cache, beam_size, steps=STEPS, batch=2):
    """Logits `[steps, B, K, V]` of hypotheses that change places."""
    random = np.random.default_rng(0)
    found = []
    for index in range(steps):
        parents = random.integers(0, beam_size, (batch, beam_size), "int32")
        if not index:
            parents[:] = 0
        logits, cache = decoder.decode_step(
            tf.constant(random.integers(2, 13, (batch, beam_size)), tf.int32),
            tf.constant(parents),
            cache,
            tf.constant(index),
        )
        found.append(tf.cast(logits, tf.float32))
    return tf.stack(found).numpy(), cache


def decode_both(model, beam_size, source=SOURCE, steps=STEPS):
    memory = model.encode(source)
    cache = model.init_cache(memory, beam_size)
    expected, _ = decode(model, cache, beam_size, steps)
    fast = FastDecoder(model, memory, steps, beam_size)
    found, cache = decode(fast, fast.init_cache(), beam_size, steps)
    return found, expected, cache


@pytest.mark.parametrize(
    "config", [pytest.param(c, id=name) for c, name in shapes().items()]
)
def test_equals_decode_step_in_the_shape_of_every_preset(config):
    found, expected, _ = decode_both(random_model(config), beam_size=3)
    assert found.std() > 0.1
    np.testing.assert_allclose(found, expected, atol=1e-5)


CONFIG = kt.TransformerConfig(
    vocab_size=13, num_layers=2, d_model=8, d_ff=16, num_heads=2, max_length=8
)


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize(
    ("dtype", "atol"),
    [
        ("float32", 1e-6),
        ("mixed_bfloat16", 0.1),
        ("mixed_float16", 0.01),
        ("bfloat16", 0.1),
    ],
)
def test_every_dtype_policy(dtype, atol, beam_size):
    found, expected, _ = decode_both(random_model(CONFIG, dtype), beam_size)
    np.testing.assert_allclose(found, expected, atol=atol)


@pytest.mark.parametrize(("d_k", "d_v"), [(3, 5), (5, 3)])
def test_heads_of_two_widths(d_k, d_v):
    config = dataclasses.replace(CONFIG, d_k=d_k, d_v=d_v)
    found, expected, _ = decode_both(random_model(config), beam_size=2)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_source_that_is_all_padding():
    source = np.where([[True], [False]], SOURCE, 0)
    found, expected, _ = decode_both(random_model(CONFIG), 2, source)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_cache_grows_by_the_hypotheses():
    _, _, cache = decode_both(random_model(CONFIG), beam_size=4)
    for key, value in cache.layers:
        assert key.shape == value.shape == (2, 2, STEPS * 4, 4)
    assert cache.ancestry.shape == (2, 4, STEPS * 4)
    assert (cache.ancestry.numpy().sum(axis=-1) == STEPS).all()


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("window", [1, 2, 9])
def test_a_window_limits_the_cache(window, beam_size):
    config = dataclasses.replace(CONFIG, attention_window=window)
    model = random_model(config)
    assert FastDecoder.supports(model)
    found, expected, cache = decode_both(model, beam_size, steps=6)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    kept = min(window, 6)
    for key, value in cache.layers:
        assert key.shape == value.shape == (2, 2, kept * beam_size, 4)
    assert (cache.ancestry.numpy().sum(axis=-1) == kept).all()


def test_a_search_in_a_graph_with_a_window(monkeypatch):
    """Scores of the search are those of the whole translation at once."""
    config = dataclasses.replace(CONFIG, attention_window=2)
    settings = kt.BeamSearch(beam_size=4, alpha=0.0, extra_length=3)
    vocabulary = types.SimpleNamespace(**vars(config), unk_id=1)
    ids = Pipeline([random_model(config)], vocabulary, settings, None)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def search(source):
        return ids.search(source)

    found = search(SOURCE)
    assert found.lengths.numpy().max() > 4
    for k in range(4):
        labels = found.ids[:, k]
        log_probs = ids.token_log_probs(tf.constant(SOURCE), labels)
        np.testing.assert_allclose(
            tf.reduce_sum(log_probs, axis=1), found.scores[:, k], atol=1e-5
        )
    monkeypatch.setattr(
        FastDecoder, "supports", staticmethod(lambda model: False)
    )
    expected = ids.search(tf.constant(SOURCE))
    np.testing.assert_array_equal(found.ids, expected.ids)


def test_it_uses_the_current_weights():
    model = random_model(CONFIG)
    before, _, _ = decode_both(model, beam_size=2)
    for weight in model.decoder.weights:
        weight.assign(weight.numpy() * 1.5)
    found, expected, _ = decode_both(model, beam_size=2)
    assert np.abs(found - before).max() > 0.1
    np.testing.assert_allclose(found, expected, atol=1e-6)


class GatedFeedForward(kt.layers.FeedForward):
    pass


class PreNorm(kt.layers.Residual):
    pass


class WindowAttention(kt.layers.MultiHeadAttention):
    pass


class OtherSteps(kt.Transformer):
    def decode_step(self, ids, parents, cache, index):
        return super().decode_step(ids, parents, cache, index)


def test_only_the_decoder_of_the_paper_is_supported(monkeypatch):
    assert FastDecoder.supports(kt.Transformer(CONFIG))
    for change in (
        dict(feed_forward_class=GatedFeedForward),
        dict(residual_class=PreNorm),
        dict(attention_class=WindowAttention),
    ):
        assert not FastDecoder.supports(kt.Transformer(CONFIG, **change))
    assert not FastDecoder.supports(OtherSteps(CONFIG))
    lora, quantized = random_model(CONFIG), random_model(CONFIG)
    lora.decoder.layers[1].feed_forward.inner.enable_lora(2)
    quantized.decoder.layers[0].self_attention.key_projection.quantize("int8")
    assert not FastDecoder.supports(lora)
    assert not FastDecoder.supports(quantized)


def test_the_search_finds_the_same_with_both(monkeypatch, translator, pairs):
    pipeline = translator.pipeline
    source, *_ = pipeline.with_end(pipeline.source_ids(list(pairs)))
    assert FastDecoder.supports(translator.model)
    found = pipeline.search(source)
    monkeypatch.setattr(
        FastDecoder, "supports", staticmethod(lambda model: False)
    )
    expected = pipeline.search(source)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5)
    np.testing.assert_array_equal(found.lengths, expected.lengths)


def test_the_search_decodes_with_it(monkeypatch, translator):
    steps = []
    decode_step = FastDecoder.decode_step

    def count(self, ids, parents, cache, index):
        steps.append(ids.shape)
        return decode_step(self, ids, parents, cache, index)

    monkeypatch.setattr(FastDecoder, "decode_step", count)
    pipeline = translator.pipeline
    source, *_ = pipeline.with_end(pipeline.source_ids(["dog"]))
    pipeline.search(source)
    assert len(steps) > 1 and set(steps) == {(1, 4)}
