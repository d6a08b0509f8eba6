"""Ids in, hypotheses out: limits, prefixes, scores, ensembles."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.decoding.search_arrays import padded
from keras_transformer.inference.graph_engine import GraphEngine
from keras_transformer.inference.keras_engine import KerasEngine
from keras_transformer.support.errors import InputError


def edit_logits(monkeypatch, model, edit):
    """Makes `model.logits` return `edit(logits)`; logits `[B, K, V]`."""
    logits = model.logits
    monkeypatch.setattr(model, "logits", lambda states: edit(logits(states)))
    monkeypatch.setattr(model, "output_projection", lambda: None)


def encoded(tokenizer, texts):
    """Returns the ids of sources with their end tokens."""
    ids = tokenizer.encode_sources(texts)
    return [[*row, tokenizer.source_eos_id] for row in ids]


def search_for(translator, texts, count=None, engine=None):
    """Returns sources, and what an engine finds for them."""
    sources = encoded(translator.tokenizer, texts)
    limits = translator.limits([ids[:-1] for ids in sources], [[]] * len(texts))
    return sources, (engine or translator.engine).search(
        sources,
        [[]] * len(texts),
        limits,
        translator.search,
        count or translator.search.num_hypotheses,
    )


def scores_of(translator, sources, result, slot):
    """Returns the scores of hypotheses by force-decoding."""
    lengths = result.lengths[:, slot]
    targets = [
        ids[:length]
        for ids, length in zip(
            result.ids[:, slot].tolist(), lengths, strict=True
        )
    ]
    log_probs = translator.engine.log_probs(sources, targets)
    return log_probs / translator.search.penalty(lengths.astype("float32"))


@pytest.mark.parametrize("extra_length", [1, 5, 1000, 10**12])
def test_output_never_exceeds_its_limits(
    model, tokenizer, monkeypatch, extra_length
):
    # The end token is never chosen before it must be.
    eos_id, limit = model.config.eos_id, model.config.max_length
    never = tf.one_hot(eos_id, tokenizer.vocab_size, -1e4, 0.0)
    edit_logits(monkeypatch, model, lambda logits: logits + never)
    search = kt.BeamSearch(beam_size=2, extra_length=extra_length)
    translator = kt.Translator(model, tokenizer, search)
    (source,), result = search_for(translator, ["dog"])
    expected = min(len(source) + extra_length, limit)
    assert result.lengths.tolist() == [[expected, expected]]
    assert result.ids.shape == (1, 2, expected)
    assert (result.ids[:, :, -1] == eos_id).all()


def test_sources_may_have_no_end_token(model, tokenizer, monkeypatch):
    """Padding in its place is not attended to, and counts as no token."""
    settings = kt.BeamSearch(extra_length=3)
    translator = kt.Translator(model, tokenizer, settings)
    (ids,) = tokenizer.encode_sources(["dog"])
    assert translator.limits([ids], [[]]).tolist() == [len(ids) + 1 + 3]
    monkeypatch.setattr(tokenizer, "source_eos_id", tokenizer.pad_id)
    assert translator.limits([ids], [[]]).tolist() == [len(ids) + 3]
    found = translator.score("dog", "Hund")
    labels = [*tokenizer.encode(["Hund"])[0], tokenizer.eos_id]
    inputs = {"source": [ids], "target": [[2, *labels[:-1]]]}
    log_probs = tf.nn.log_softmax(
        model({k: tf.constant(x) for k, x in inputs.items()})
    )
    expected = sum(log_probs[0, i, x] for i, x in enumerate(labels))
    np.testing.assert_allclose(found.log_prob, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("factor", "extra", "expected"),
    [
        (1.0, 2, 7),
        (1.5, 0, 7),
        (0.0, 3, 3),
        (0.0, 0, 1),
        (2.0, 5, 15),
        (500.0, 0, 24),
    ],
)
def test_length_limit_is_a_multiple_of_the_source(
    model, tokenizer, factor, extra, expected
):
    settings = kt.BeamSearch(length_factor=factor, extra_length=extra)
    translator = kt.Translator(model, tokenizer, settings)
    source, prefix = [5, 6, 7, 8], [5, 6]  # 5 tokens with the end token
    limits = translator.limits([source] * 2, [[], prefix])
    assert limits.tolist() == [expected, min(expected + 2, 24)]


def test_special_tokens_are_never_chosen(model, tokenizer, monkeypatch):
    special = [tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id]
    likely = tf.reduce_sum(tf.one_hot(special, tokenizer.vocab_size), axis=0)
    edit_logits(monkeypatch, model, lambda logits: logits + 50.0 * likely)
    translator = kt.Translator(model, tokenizer)
    _, result = search_for(translator, ["dog", "cat"])
    for hypotheses, lengths in zip(*result[::2], strict=True):
        for ids, length in zip(hypotheses, lengths, strict=True):
            assert length > 0
            assert not set(special) & set(ids[:length].tolist())


@pytest.mark.parametrize(
    "settings",
    [
        dict(beam_size=1, alpha=0.6),
        dict(beam_size=4, alpha=0.0),
        dict(beam_size=4, alpha=1.0, length_penalty="power"),
    ],
)
def test_scores_are_those_of_force_decoding(model, tokenizer, pairs, settings):
    search = kt.BeamSearch(**settings, extra_length=12)
    beam_size = search.beam_size
    translator = kt.Translator(model, tokenizer, search, beam_size)
    texts = [*list(pairs)[::5], "cat dog", "no such sentence"]
    sources, result = search_for(translator, texts)
    assert result.ids.shape[:2] == (len(texts), beam_size)
    for slot in range(beam_size):
        found = scores_of(translator, sources, result, slot)
        np.testing.assert_allclose(
            found, result.scores[:, slot], rtol=1e-4, atol=1e-5
        )


def test_samples_have_the_scores_of_force_decoding(model, tokenizer):
    search = kt.Sampling(2.0, top_k=20, num_samples=4, extra_length=12)
    translator = kt.Translator(model, tokenizer, search, 4)
    texts = ["dog", "The red cat sleeps."]
    sources, result = search_for(translator, texts)
    assert len({tuple(row) for row in result.ids[1].tolist()}) > 1
    for slot in range(4):
        found = scores_of(translator, sources, result, slot)
        np.testing.assert_allclose(
            found, result.scores[:, slot], rtol=1e-4, atol=1e-5
        )
    # Only the first source, without padding.
    _, alone = search_for(translator, texts[:1])
    assert alone.lengths[0].tolist() == result.lengths[0].tolist()
    longest = max(alone.lengths[0])
    np.testing.assert_array_equal(alone.ids[0], result.ids[0, :, :longest])


def test_an_ensemble_averages_probabilities(translator, model, tokenizer):
    other = kt.Transformer(model.config)
    for ours, theirs in zip(other.weights, model.weights, strict=True):
        noise = np.random.default_rng(0).normal(0, 0.05, ours.shape)
        ours.assign(theirs.numpy() + noise)
    search = kt.BeamSearch(extra_length=12)
    both = kt.Translator([model, other], tokenizer, search)
    sources, result = search_for(both, ["dog", "The red cat"])
    best = result.ids[:, 0]
    target = np.pad(best, [[0, 0], [1, 0]], constant_values=2)[:, :-1]
    inputs = {"source": padded(sources, 0), "target": target}
    probabilities = np.mean(
        [tf.nn.softmax(m(inputs)) for m in (model, other)],
        axis=0,
    )
    for row in range(2):
        length = int(result.lengths[row, 0])
        labels = best[row, :length]
        log_p = np.log(probabilities[row, range(length), labels]).sum()
        score = log_p / ((5 + length) / 6) ** 0.6
        np.testing.assert_allclose(result.scores[row, 0], score, rtol=1e-4)
    assert both("dog") == "Hund"


def test_models_of_an_ensemble_share_the_vocabulary(model, tokenizer):
    config = dataclasses.replace(model.config, vocab_size=331)
    with pytest.raises(InputError, match=r"\[331, 0, 2, 3.* of a model"):
        kt.Translator([model, kt.Transformer(config)], tokenizer)


def test_the_prefix_is_kept_whatever_the_limits(model, tokenizer):
    search = kt.BeamSearch(length_factor=0.0, extra_length=0)
    translator = kt.Translator(model, tokenizer, search)
    for prefix in ("Ich", "Hund schläft", "Hund " * 30):
        found = translator.translate("dog", prefixes=prefix)
        # Nothing but the prefix and the end token has room.
        is_long = len(prefix) > 100
        assert found.source_truncated == is_long and found.at_length_limit
        if is_long:
            assert found.texts[0].startswith("Hund Hund")
        else:
            assert found.texts == [prefix]
            assert np.isfinite(found.scores[0])


def test_the_vocabulary_must_fit_the_model(model, pairs):
    other = kt.Tokenizer.train([*pairs, *pairs.values()], vocab_size=320)
    with pytest.raises(InputError, match="320, 0, 2, 3.* of the tokenizer"):
        kt.Translator(model, other)


def test_the_vocabulary_of_sources_must_fit_the_model(model, tokenizer):
    size = tokenizer.vocab_size
    config = dataclasses.replace(
        model.config, source_vocab_size=size + 1, tied_embeddings="target"
    )
    match = f"3, {size}] of the tokenizer, .*3, {size + 1}] of a model"
    with pytest.raises(InputError, match=match):
        kt.Translator(kt.Transformer(config), tokenizer)


def test_both_searches_find_the_same(model, tokenizer, pairs):
    """One in TensorFlow's graphs, and one with NumPy for every backend."""
    texts = [*list(pairs), "cat dog", "no such sentence"]
    for search in (
        kt.BeamSearch(extra_length=12),
        kt.BeamSearch(2, extra_length=9, no_repeat_ngram=2, stop="finished"),
    ):
        translator = kt.Translator(model, tokenizer, search)
        portable = KerasEngine([model], tokenizer)
        assert type(translator.engine) is GraphEngine
        _, expected = search_for(translator, texts)
        _, found = search_for(translator, texts, engine=portable)
        longest = expected.ids.shape[-1]
        np.testing.assert_array_equal(found.lengths, expected.lengths)
        np.testing.assert_array_equal(found.ids[..., :longest], expected.ids)
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-4)


def test_only_graphs_sample_and_become_a_saved_model(model, tokenizer):
    engine = KerasEngine([model], tokenizer)
    with pytest.raises(InputError, match="backend tensorflow"):
        engine.search([[5, 3]], [[]], np.array([4]), kt.Sampling(), 1)
    with pytest.raises(InputError, match="backend tensorflow"):
        engine.search_tensors(None, None, None, kt.BeamSearch(), 1)
