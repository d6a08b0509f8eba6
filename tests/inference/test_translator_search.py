import keras
import numpy as np

import keras_transformer as kt


def test_samples_depend_on_text_and_seed_alone(model, tokenizer, pairs):
    def sampler(seed):
        search = kt.Sampling(
            2.0, top_p=0.95, seed=seed, num_samples=4, extra_length=12
        )
        return kt.Translator(model, tokenizer, search, num_translations=3)

    texts = [*list(pairs)[:6], "dog", next(iter(pairs)), ""]
    first = sampler(seed=1)
    found = first.translate(texts)
    assert found[0].texts == found[7].texts and found[8].texts == [""] * 3
    assert len({text for t in found for text in t.texts}) > len(texts)
    for translation in found:
        assert translation.scores == sorted(translation.scores, reverse=True)
    # In different batches and a different order.
    again = first.translate(texts[::-1], batch_tokens=20)[::-1]
    for ours, theirs in zip(found, again, strict=True):
        assert ours.texts == theirs.texts
        np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-4)
    other = sampler(seed=2).translate(texts)
    assert [t.texts for t in other] != [t.texts for t in found]


# === The graph is the current model's ===


def copied(model):
    copy = kt.Transformer(model.config)
    copy.set_weights(model.get_weights())
    return copy


def replace_layer(model):
    attention = model.encoder.layers[0].self_attention
    old = attention.output_projection
    new = keras.layers.Dense(
        old.units, use_bias=False, kernel_initializer="ones"
    )
    new.build((None, None, old.kernel.shape[0]))
    attention._tracker.unlock()
    attention.output_projection = new


def test_a_changed_model_is_traced_again(model, tokenizer):
    changed = copied(model)
    search = kt.BeamSearch(2, extra_length=4)
    translator = kt.Translator(changed, tokenizer, search)
    before = translator.translate("The red dog sleeps.")
    replace_layer(changed)
    found = translator.translate("The red dog sleeps.")
    new = kt.Translator(changed, tokenizer, search)
    expected = new.translate("The red dog sleeps.")
    assert found.texts == expected.texts
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-4)
    assert found.scores != before.scores


def test_new_values_need_no_new_graph_but_a_new_search_does(model, tokenizer):
    changed = copied(model)
    translator = kt.Translator(changed, tokenizer, kt.BeamSearch(1, alpha=0.0))
    before = translator.translate("dog")
    graphs = translator.engine._compiled
    (graph,) = graphs.values()
    changed.set_weights([weight * 0.9 for weight in model.get_weights()])
    found = translator.translate("dog")
    assert abs(found.scores[0] - before.scores[0]) > 1e-3
    assert [*graphs.values()] == [graph]
    assert graph.experimental_get_tracing_count() == 1
    translator.backend.search = kt.BeamSearch(1, alpha=1.0)
    # The length penalty divides a negative number.
    assert translator.translate("dog").scores[0] > found.scores[0]
