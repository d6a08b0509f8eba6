"""Ids in, hypotheses out: limits, prefixes, scores, ensembles."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.decoding import sequence_scores
from keras_transformer.support.errors import InputError


def edit_logits(monkeypatch, model, edit):
    """Makes `model.logits` return `edit(logits)`; logits `[B, K, V]`."""
    logits = model.logits
    monkeypatch.setattr(model, "logits", lambda states: edit(logits(states)))
    monkeypatch.setattr(model, "output_projection", lambda: None)


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
    pipeline = translator.pipeline
    source, lengths, _ = pipeline.with_end(pipeline.source_ids(["dog"]))
    result = pipeline.search(source, 2, search)
    expected = min(int(lengths[0]) + extra_length, limit)
    assert result.lengths.numpy().tolist() == [[expected, expected]]
    assert result.ids.shape == (1, 2, expected)
    assert (result.ids[:, :, -1].numpy() == eos_id).all()


def test_sources_may_have_no_end_token(model, tokenizer, monkeypatch):
    """Padding in its place is not attended to, and counts as no token."""
    text, settings = tf.constant(["dog"]), kt.BeamSearch(extra_length=3)
    pipeline = kt.Translator(model, tokenizer).pipeline
    ids = pipeline.source_ids(text)
    with_end, _, _ = pipeline.with_end(ids)
    monkeypatch.setattr(tokenizer, "source_eos_id", tokenizer.pad_id)
    source, lengths, _ = pipeline.with_end(ids)
    assert source.numpy().tolist() == [[*ids[0].numpy(), 0]]
    assert lengths.numpy() == with_end.shape[1]
    labels, _, _ = pipeline.labels_with_end(ids)
    np.testing.assert_array_equal(labels, with_end)
    limits = pipeline.max_lengths(source, settings)
    assert limits.numpy() == with_end.shape[1] - 1 + 3
    found = pipeline.token_log_probs(source, labels[:, :1])
    start = tf.constant([[2]])
    position = model({"source": ids.to_tensor(), "target": start})
    log_probs = tf.nn.log_softmax(position)[0, 0, labels[0, 0]]
    np.testing.assert_allclose(found[0, 0], log_probs, rtol=1e-5)


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
    translator, factor, extra, expected
):
    source = tf.constant([[5, 6, 7, 8, 3, 0, 0]])  # 5 tokens
    max_lengths = translator.pipeline.max_lengths
    settings = kt.BeamSearch(length_factor=factor, extra_length=extra)
    limits = max_lengths(source, settings)
    assert limits.numpy().tolist() == [expected]
    prefix = tf.constant([[5, 6, 0]])

    @tf.function
    def in_graph(length_factor, extra_length):
        settings = kt.BeamSearch(
            length_factor=length_factor, extra_length=extra_length
        )
        return (
            max_lengths(source, settings),
            max_lengths(source, settings, prefix),
        )

    alone, after_prefix = in_graph(tf.constant(factor), tf.constant(extra))
    assert alone.numpy().tolist() == [expected]
    assert after_prefix.numpy().tolist() == [min(expected + 2, 24)]


def test_special_tokens_are_never_chosen(model, tokenizer, monkeypatch):
    special = [tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id]
    likely = tf.reduce_sum(tf.one_hot(special, tokenizer.vocab_size), axis=0)
    edit_logits(monkeypatch, model, lambda logits: logits + 50.0 * likely)
    translator = kt.Translator(model, tokenizer)
    pipeline = translator.pipeline
    source, _, _ = pipeline.with_end(pipeline.source_ids(["dog", "cat"]))
    result = pipeline.search(source, 4, translator.search)
    for hypotheses, lengths in zip(*map(np.array, result[::2]), strict=True):
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
    pipeline = translator.pipeline
    source, _, _ = pipeline.with_end(pipeline.source_ids(texts))
    result = pipeline.search(source, beam_size, search)
    assert result.ids.shape[:2] == (len(texts), beam_size)
    for beam in range(beam_size):
        log_probs = pipeline.token_log_probs(source, result.ids[:, beam])
        found = sequence_scores(log_probs, result.lengths[:, beam], search)
        np.testing.assert_allclose(
            found.scores,
            result.scores[:, beam],
            rtol=1e-4,
            atol=1e-5,
        )


def test_samples_have_the_scores_of_force_decoding(model, tokenizer):
    search = kt.Sampling(2.0, top_k=20, num_samples=4, extra_length=12)
    ids = kt.Translator(model, tokenizer, search, 4).pipeline
    source = tokenizer.tokenize(["dog", "The red cat sleeps."])
    end = tf.fill([2, 1], tokenizer.eos_id)
    source = tf.concat([source, end], axis=1).to_tensor(tokenizer.pad_id)
    result = ids.search(source, 4, search)
    assert len({tuple(row) for row in result.ids[1].numpy().tolist()}) > 1
    for slot in range(4):
        log_probs = ids.token_log_probs(source, result.ids[:, slot])
        found = sequence_scores(log_probs, result.lengths[:, slot], search)
        np.testing.assert_allclose(
            found.scores, result.scores[:, slot], rtol=1e-4, atol=1e-5
        )
    # Only the first source, with more padding.
    alone = ids.search(tf.pad(source[:1], [[0, 0], [0, 3]]), 4, search)
    lengths = result.lengths[0].numpy().tolist()
    assert alone.lengths[0].numpy().tolist() == lengths
    np.testing.assert_array_equal(
        alone.ids[0], result.ids[0, :, : max(lengths)]
    )


def test_an_ensemble_averages_probabilities(translator, model, tokenizer):
    other = kt.Transformer(model.config)
    for ours, theirs in zip(other.weights, model.weights, strict=True):
        noise = np.random.default_rng(0).normal(0, 0.05, ours.shape)
        ours.assign(theirs.numpy() + noise)
    search = kt.BeamSearch(extra_length=12)
    both = kt.Translator([model, other], tokenizer, search)
    pipeline = both.pipeline
    source, *_ = pipeline.with_end(pipeline.source_ids(["dog", "The red cat"]))
    result = pipeline.search(source, 4, search)
    best = result.ids[:, 0]
    target = pipeline.decoder_input(best)
    probabilities = np.mean(
        [
            tf.nn.softmax(m({"source": source, "target": target}))
            for m in (model, other)
        ],
        axis=0,
    )
    for row in range(2):
        length = int(result.lengths[row, 0])
        labels = best[row, :length].numpy()
        log_p = np.log(probabilities[row, range(length), labels]).sum()
        score = log_p / ((5 + length) / 6) ** 0.6
        np.testing.assert_allclose(result.scores[row, 0], score, rtol=1e-4)
    assert both("dog") == "Hund"


def test_models_of_an_ensemble_share_the_vocabulary(model, tokenizer):
    config = dataclasses.replace(model.config, vocab_size=331)
    with pytest.raises(InputError, match="same vocab_size, pad_id"):
        kt.Translator([model, kt.Transformer(config)], tokenizer)
    with pytest.raises(InputError, match="needs a model. Received: none"):
        kt.Translator([], tokenizer)


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
    match = f"3, {size}\\) of the tokenizer, .*3, {size + 1}\\) of the model"
    with pytest.raises(InputError, match=match):
        kt.Translator(kt.Transformer(config), tokenizer)
