import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from padded_search import numpy_engine

import keras_transformer as kt
from keras_transformer.support.errors import InputError
from keras_transformer.text.ids import padded


def search_for(translator, texts, engine=None):
    """Returns sources, and the hypotheses that an engine finds for them."""
    tokenizer = translator.tokenizer
    ids = tokenizer.encode_sources(texts)
    sources = [[*row, tokenizer.source_eos_id] for row in ids]
    nothing = [[]] * len(texts)
    return sources, (engine or translator.engine).search(
        sources,
        nothing,
        translator.backend.limits(ids, nothing),
        translator.search,
        translator.num_translations,
    )


def check_scores(translator, sources, result):
    """Compares scores with force-decoding."""
    for slot in range(translator.num_translations):
        lengths = result.lengths[:, slot]
        rows = zip(result.ids[:, slot].tolist(), lengths, strict=True)
        targets = [ids[:length] for ids, length in rows]
        log_probs = translator.engine.log_probs(sources, targets)
        scores = log_probs / translator.search.penalty(
            lengths.astype("float32")
        )
        np.testing.assert_allclose(scores, result.scores[:, slot], 1e-4, 1e-5)


@pytest.mark.parametrize("extra_length", [5, 10**12])
def test_outputs_never_exceed_their_limits(
    model, tokenizer, monkeypatch, extra_length
):
    # The end token is never chosen before it must be.
    eos_id, limit = model.config.eos_id, model.config.max_length
    never = tf.one_hot(eos_id, tokenizer.vocab_size, -1e4, 0.0)
    logits = model.logits
    monkeypatch.setattr(model, "logits", lambda states: logits(states) + never)
    monkeypatch.setattr(model, "output_projection", lambda: None)
    search = kt.BeamSearch(beam_size=2, extra_length=extra_length)
    translator = kt.Translator(model, tokenizer, search, 2)
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
    limits = translator.backend.limits
    assert limits([ids], [[]]).tolist() == [len(ids) + 1 + 3]
    monkeypatch.setattr(tokenizer, "source_eos_id", tokenizer.pad_id)
    assert limits([ids], [[]]).tolist() == [len(ids) + 3]
    found = translator.score("dog", "Hund")
    labels = [*tokenizer.encode(["Hund"])[0], tokenizer.eos_id]
    inputs = {"source": [ids], "target": [[2, *labels[:-1]]]}
    log_probs = tf.nn.log_softmax(
        model({k: tf.constant(x) for k, x in inputs.items()})
    )
    expected = sum(log_probs[0, i, x] for i, x in enumerate(labels))
    np.testing.assert_allclose(found.log_prob, expected, rtol=1e-5)


def test_special_tokens_are_banned(translator):
    assert translator.engine.special_ids == (2, 3, 0, (0, 1, 2))


def test_both_searches_find_the_same(translator, model, tokenizer, pairs):
    """One in TensorFlow's graphs, and one with NumPy for every backend."""
    texts = [*list(pairs)[::3], "cat dog", "no such sentence"]
    portable = numpy_engine(model, tokenizer)
    search = kt.BeamSearch(2, extra_length=9, no_repeat_ngram=2)
    other = kt.Translator(model, tokenizer, search, 2)
    for each in (translator, other):
        sources, expected = search_for(each, texts)
        _, found = search_for(each, texts, portable)
        longest = expected.ids.shape[-1]
        np.testing.assert_array_equal(found.lengths, expected.lengths)
        np.testing.assert_array_equal(found.ids[..., :longest], expected.ids)
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-4)
        check_scores(each, sources, expected)


def test_samples_have_the_scores_of_force_decoding(model, tokenizer):
    search = kt.Sampling(2.0, top_k=20, num_samples=4, extra_length=12)
    translator = kt.Translator(model, tokenizer, search, 4)
    texts = ["dog", "The red cat sleeps."]
    sources, result = search_for(translator, texts)
    assert len({tuple(row) for row in result.ids[1].tolist()}) > 1
    check_scores(translator, sources, result)
    # Only the first source, without padding.
    _, alone = search_for(translator, texts[:1])
    assert alone.lengths[0].tolist() == result.lengths[0].tolist()
    longest = max(alone.lengths[0])
    np.testing.assert_array_equal(alone.ids[0], result.ids[0, :, :longest])


def test_an_ensemble_averages_probabilities(model, tokenizer):
    other = kt.Transformer(model.config)
    for ours, theirs in zip(other.weights, model.weights, strict=True):
        noise = np.random.default_rng(0).normal(0, 0.05, ours.shape)
        ours.assign(theirs.numpy() + noise)
    search = kt.BeamSearch(2, extra_length=12)
    both = kt.Translator([model, other], tokenizer, search)
    sources, result = search_for(both, ["dog", "The red cat"])
    best = result.ids[:, 0]
    target = np.pad(best, [[0, 0], [1, 0]], constant_values=2)[:, :-1]
    inputs = {"source": padded(sources, 0), "target": target}
    probabilities = np.mean(
        [tf.nn.softmax(m(inputs)) for m in (model, other)], axis=0
    )
    for row in range(2):
        length = int(result.lengths[row, 0])
        labels = best[row, :length]
        log_p = np.log(probabilities[row, range(length), labels]).sum()
        score = log_p / ((5 + length) / 6) ** 0.6
        np.testing.assert_allclose(result.scores[row, 0], score, rtol=1e-4)
    assert both("dog") == "Hund"


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        (dict(vocab_size=331), "'vocab_size': 331.* of a model"),
        (
            dict(source_vocab_size=331, tied_embeddings="target"),
            "None.* of the tokenizer, .*'source_vocab_size': 331",
        ),
    ],
    ids=["target", "source"],
)
def test_each_model_must_fit_the_tokenizer(model, tokenizer, changes, match):
    config = dataclasses.replace(model.config, **changes)
    with pytest.raises(InputError, match=match):
        kt.Translator([model, kt.Transformer(config)], tokenizer)


def test_only_graphs_sample_and_become_a_saved_model(model, tokenizer):
    engine = numpy_engine(model, tokenizer)
    with pytest.raises(InputError, match="backend tensorflow"):
        engine.search([[5, 3]], [[]], np.array([4]), kt.Sampling(), 1)
