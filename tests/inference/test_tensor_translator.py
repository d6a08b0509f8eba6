"""Prefixes, samples, and runs that translate together, by `Translator`."""

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.support.errors import InputError
from keras_transformer.train.run import TrainingRun


def test_a_prefix_per_text(translator):
    texts = ["dog", "cat", "The red dog sleeps."]
    prefixes = ["", "Baum", "Kat"]
    found = translator.translate(texts, prefixes=prefixes)
    assert found[0].texts[0] == "Hund"
    for prefix, translation in zip(prefixes, found, strict=True):
        assert all(text.startswith(prefix) for text in translation.texts)
        assert translation.scores == sorted(translation.scores, reverse=True)
    alone = translator.translate(texts[1], prefixes=prefixes[1])
    assert alone.texts == found[1].texts
    np.testing.assert_allclose(alone.scores, found[1].scores, atol=1e-5)


def test_a_prefix_of_any_length(translator):
    (translation,) = translator.translate(["dog"], prefixes=["Hund " * 100])
    assert translation.at_length_limit and translation.source_truncated
    assert translation.texts[0].startswith("Hund Hund")
    limit = translator.model.config.max_length
    ids = translator.tokenizer.tokenize(translation.texts[:1])
    assert ids.row_lengths()[0] < limit


def test_samples_depend_on_text_and_seed_alone(model, tokenizer, pairs):
    def sampler(**settings):
        search = kt.Sampling(2.0, top_p=0.95, extra_length=12, **settings)
        return kt.Translator(model, tokenizer, search, num_translations=3)

    texts = [*list(pairs)[:6], "dog", next(iter(pairs)), ""]
    first = sampler(seed=1)
    found = first.translate(texts)
    assert found[0] == found[7] and found[8].texts == [""] * 3
    assert len({text for t in found for text in t.texts}) > len(texts)
    for translation in found:
        assert translation.scores == sorted(translation.scores, reverse=True)
    # Other batches and another order, in another translator.
    again = sampler(seed=1).translate(texts[::-1], batch_tokens=20)[::-1]
    for ours, theirs in zip(found, again, strict=True):
        assert ours.texts == theirs.texts
        np.testing.assert_allclose(ours.scores, theirs.scores, atol=1e-4)
    other = sampler(seed=2).translate(texts)
    assert [t.texts for t in other] != [t.texts for t in found]
    # More samples, of which the best are returned.
    more = sampler(seed=1, num_samples=8).translate(texts[0])
    assert len(more.texts) == 3 and more.scores[0] >= found[0].scores[0]
    greedy = kt.Translator(model, tokenizer, kt.BeamSearch(beam_size=1))
    sharp = kt.Translator(model, tokenizer, kt.Sampling(top_k=1))
    assert sharp(texts) == greedy(texts)


def test_samples_continue_a_prefix(model, tokenizer):
    search = kt.Sampling(2.0, num_samples=4, extra_length=6)
    translator = kt.Translator(model, tokenizer, search, num_translations=4)
    found = translator.translate(["dog", "cat"], prefixes=["Haus", ""])
    assert all(text.startswith("Haus") for text in found[0].texts)
    assert len(set(found[0].texts)) > 1


def test_runs_of_an_ensemble_share_the_tokenizer(
    model, tokenizer, pairs, tmp_path
):
    def create(name, tokenizer):
        TrainingRun.create(
            tmp_path / name, model.config, {}, tokenizer, model=model, step=1
        )
        return tmp_path / name

    runs = [create(name, tokenizer) for name in ("a", "b")]
    both = kt.Translator.open(runs)
    assert len(both.models) == 2 and both("dog") == "Hund"
    found = [(run.path, path.name) for run, path in both.checkpoints]
    assert found == [(run, "step-00000001.weights.h5") for run in runs]
    other = create("c", kt.Tokenizer.train(list(pairs), vocab_size=300))
    with pytest.raises(
        InputError, match="same task and tokenizer: .*--init-from"
    ):
        kt.Translator.open([runs[0], other])
