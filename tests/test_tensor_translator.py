"""Prefixes and runs that translate together, through `Translator`."""

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.errors import InputError
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
    with pytest.raises(InputError, match="same tokenizer: .*--init-from"):
        kt.Translator.open([runs[0], other])
