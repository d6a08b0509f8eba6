"""Prefixes, samples, ensembles and graphs of `Translator`."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from run_fixtures import create_run

import keras_transformer as kt
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import ParsingTask


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
    np.testing.assert_allclose(alone.scores, found[1].scores, rtol=1e-4)


def test_samples_depend_on_text_and_seed_alone(model, tokenizer, pairs):
    def sampler(**settings):
        search = kt.Sampling(2.0, top_p=0.95, extra_length=12, **settings)
        return kt.Translator(model, tokenizer, search, num_translations=3)

    texts = [*list(pairs)[:6], "dog", next(iter(pairs)), ""]
    first = sampler(seed=1)
    found = first.translate(texts)
    assert found[0].texts == found[7].texts and found[8].texts == [""] * 3
    np.testing.assert_allclose(found[0].scores, found[7].scores, rtol=1e-4)
    assert len({text for t in found for text in t.texts}) > len(texts)
    for translation in found:
        assert translation.scores == sorted(translation.scores, reverse=True)
    # Other batches and another order.
    again = first.translate(texts[::-1], batch_tokens=20)[::-1]
    for ours, theirs in zip(found, again, strict=True):
        assert ours.texts == theirs.texts
        np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-4)
    other = sampler(seed=2).translate(texts)
    assert [t.texts for t in other] != [t.texts for t in found]


@pytest.mark.slow
def test_the_best_of_more_samples_and_the_only_one(model, tokenizer, pairs):
    def samples(n, **settings):
        search = kt.Sampling(2.0, extra_length=12, seed=1, **settings)
        sampler = kt.Translator(model, tokenizer, search, n)
        return sampler.translate(list(pairs)[:8])

    few, again = samples(3), samples(3)
    assert few == again  # of another translator
    for fewer, more in zip(few, samples(3, num_samples=8), strict=True):
        assert len(more.texts) == 3
        assert more.scores[0] > fewer.scores[0] - 1e-3
    greedy = kt.Translator(model, tokenizer, kt.BeamSearch(beam_size=1))
    sharp = [translation.texts[0] for translation in samples(1, top_k=1)]
    assert sharp == greedy(list(pairs)[:8])


def test_samples_continue_a_prefix(model, tokenizer):
    search = kt.Sampling(2.0, num_samples=4, extra_length=6)
    translator = kt.Translator(model, tokenizer, search, num_translations=4)
    found = translator.translate(["dog", "cat"], prefixes=["Haus", ""])
    assert all(text.startswith("Haus") for text in found[0].texts)
    assert len(set(found[0].texts)) > 1


@pytest.mark.parametrize(
    "form",
    ["wu", pytest.param("power", marks=pytest.mark.slow), "power_without_end"],
)
def test_the_score_of_a_translation_is_that_of_the_search(
    model, tokenizer, pairs, form
):
    search = kt.BeamSearch(4, 1.5, extra_length=12, length_penalty=form)
    translator = kt.Translator(model, tokenizer, search)
    found = translator.translate(list(pairs))
    texts = [translation.texts[0] for translation in found]
    assert texts == list(pairs.values())
    np.testing.assert_allclose(
        [score.score for score in translator.score(list(pairs), texts)],
        [translation.scores[0] for translation in found],
        rtol=1e-4,
    )


def test_runs_of_an_ensemble_share_the_tokenizer(
    model, tokenizer, pairs, tmp_path
):
    def create(name, tokenizer):
        return create_run(tmp_path / name, model, tokenizer).path

    runs = [create(name, tokenizer) for name in ("a", "b")]
    both = kt.open_translator(runs)
    assert len(both.models) == 2 and both("dog") == "Hund"
    with pytest.raises(kt.InputError, match="Received: no run"):
        kt.open_translator([])
    found = [(run.path, path.name) for run, path in both.checkpoints]
    assert found == [(run, "step-00000001.weights.h5") for run in runs]
    other = create("c", kt.Tokenizer.train(list(pairs), vocab_size=300))
    with pytest.raises(InputError, match=f"{other}"):
        kt.open_translator([runs[0], other])


def test_a_run_twice_and_a_different_task(model, tokenizer, tmp_path):
    languages = ("eo", None)
    run = create_run(tmp_path / "a", model, tokenizer, languages=languages).path
    translator = kt.open_translator(run)
    assert translator.languages == ("eo", None)
    assert kt.Translator(model, tokenizer).languages == (None, None)
    assert translator("dog") == "Hund"
    both = kt.open_translator([run, run], num_translations=2)
    assert both.models[0] is not both.models[1]
    other = ParsingTask(split_words=False)
    assert kt.open_translator(run, task=other).task is other


def test_the_search_of_a_run_is_the_default(model, tokenizer, tmp_path):
    def create(name, search):
        return create_run(tmp_path / name, model, tokenizer, search=search)

    search = kt.BeamSearch(2, 1.5, 12, length_penalty="power")
    run, other = create("own", search), create("other", None)
    translator = kt.open_translator(run.path)
    assert translator.search == search
    # "Hund" is a token or several, and the end token.
    log_prob = translator.score("dog", "Hund").log_prob
    n = len(tokenizer.encode(["Hund"])[0]) + 1
    found = translator.translate("dog")
    assert found.texts == ["Hund"]
    assert found.scores[0] == pytest.approx(log_prob / n**1.5, rel=1e-4)
    # What is given goes first, then what the first of several runs has.
    given = kt.BeamSearch(3)
    paths = [run.path, other.path]
    assert kt.open_translator(paths[0], search=given).search == given
    assert kt.open_translator(paths).search == search
    assert kt.open_translator(paths[::-1]).search == kt.BeamSearch()


# === The graph of the model as it is ===


def copied(model, **options):
    copy = kt.Transformer(model.config, **options)
    copy.set_weights(model.get_weights())
    return copy


def enable_lora(model):
    for layer in model.decoder.layers:
        inner = layer.feed_forward.inner
        inner.enable_lora(2)
        inner.lora_kernel_b.assign(tf.ones_like(inner.lora_kernel_b))


def quantize(model):
    # In 8 bits a random matrix of this size differs visibly.
    for layer in model.decoder.layers:
        layer.cross_attention.value_projection.quantize("int8")


def replace_layer(model):
    attention = model.encoder.layers[0].self_attention
    old = attention.output_projection
    new = keras.layers.Dense(
        old.units, use_bias=False, kernel_initializer="ones"
    )
    new.build((None, None, old.kernel.shape[0]))
    attention._tracker.unlock()
    attention.output_projection = new


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(enable_lora, marks=pytest.mark.slow),
        pytest.param(quantize, marks=pytest.mark.slow),
        replace_layer,
    ],
)
def test_a_model_of_another_kind_is_traced_again(model, tokenizer, change):
    changed = copied(model)
    translator = kt.Translator(changed, tokenizer)
    before = translator.translate("The red dog sleeps.")
    change(changed)
    found = translator.translate("The red dog sleeps.")
    expected = kt.Translator(changed, tokenizer).translate(
        "The red dog sleeps."
    )
    assert found.texts == expected.texts
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-4)
    assert found.scores != before.scores


def test_other_values_of_weights_need_no_new_graph(model, tokenizer):
    changed = copied(model)
    translator = kt.Translator(changed, tokenizer)
    before = translator.translate("dog")
    (graph,) = translator.engine._graphs.values()
    changed.set_weights([weight * 0.9 for weight in model.get_weights()])
    found = translator.translate("dog")
    assert abs(found.scores[0] - before.scores[0]) > 1e-3
    assert [*translator.engine._graphs.values()] == [graph]
    assert graph.experimental_get_tracing_count() == 1


def test_texts_are_tokenized_once(translator, pairs, monkeypatch):
    texts, encode = [], translator.tokenizer.encode_sources

    def watch(sources):
        texts.extend(sources)
        return encode(sources)

    monkeypatch.setattr(translator.tokenizer, "encode_sources", watch)
    translator.translate(list(pairs), batch_tokens=24)
    assert len(texts) == len(pairs)


def test_another_search_is_used_from_now_on(model, tokenizer):
    translator = kt.Translator(model, tokenizer, kt.BeamSearch(1, 0.0))
    before = translator.translate("dog").scores
    translator.search = kt.BeamSearch(1, 1.0)
    after = translator.translate("dog").scores
    assert after[0] > before[0]  # the length penalty divides a negative number
    score = translator.score("dog", "Hund").score
    assert after[0] == pytest.approx(score, rel=1e-4)
