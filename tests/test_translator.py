"""Text in, text out: order, hard inputs, scores."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding import BeamSearch
from keras_transformer.errors import InputError
from keras_transformer.text import Tokenizer
from keras_transformer.translator import Translator

HARD = {
    "empty": "",
    "blank": " \t\n ",
    "one word": "dog",
    "NUL": "The red\0dog sleeps.",
    "emoji": "The 👩‍👩‍👧‍👦 sleeps. 🇩🇪",
    "another script": "猫は魚が好きです。",
    "100,000 characters": "The red dog " * 8_333 + "red.",
    "100,000 characters in one word": "x" * 100_000,
    "spelled special tokens": "<s></s><pad><unk>",
}


def assert_same(ours, theirs):
    """Batches of another shape are added up in another order."""
    assert ours.texts == theirs.texts
    assert ours.truncated == theirs.truncated
    np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-4, atol=1e-5)


def test_translates_what_the_model_has_learned(translator, pairs):
    assert len(pairs) == 24
    assert translator(list(pairs)) == list(pairs.values())


def test_results_are_plain_python_values(translator):
    (translation,) = translator.translate(["dog"])
    assert [type(text) for text in translation.texts] == [str] * 3
    assert [type(score) for score in translation.scores] == [float] * 3
    assert translation.truncated is False


@pytest.mark.parametrize("batch_tokens", [1, 24, 100, 10_000])
def test_order_is_kept_over_batches_of_different_lengths(
    translator, pairs, batch_tokens
):
    # Short and long alternate; each occurs twice.
    sources = [*pairs, *reversed(pairs)]
    batches = translator._batches(sources, batch_tokens)
    assert sorted(i for batch in batches for i in batch) == list(range(48))
    assert len(batches) == {1: 48, 10_000: 1}.get(batch_tokens, len(batches))
    found = translator.translate(sources, batch_tokens=batch_tokens)
    assert [t.texts[0] for t in found] == [pairs[source] for source in sources]


def test_a_text_does_not_depend_on_its_batch(translator, pairs):
    texts = [*HARD.values(), *list(pairs)[::6]]
    together = translator.translate(texts, batch_tokens=100_000)
    assert len(together) == len(texts)
    for text, translation in zip(texts, together, strict=True):
        assert_same(*translator.translate([text]), translation)


def test_no_texts(translator):
    assert translator([]) == []
    assert translator.translate([]) == []


@pytest.mark.parametrize("text", ["", " \t\n "])
def test_a_text_without_tokens(translator, text):
    (translation,) = translator.translate([text])
    assert translation == (["", "", ""], [0.0, 0.0, 0.0], False)


@pytest.mark.parametrize("name", HARD)
def test_hard_texts_survive_beside_others(translator, name):
    before, hard, after = translator.translate(["dog", HARD[name], "tree"])
    assert (before.texts[0], after.texts[0]) == ("Hund", "Baum")
    assert len(hard.texts) == 3 and np.isfinite(hard.scores).all()
    assert not before.truncated and not after.truncated
    if name.startswith("100,000"):
        assert len(HARD[name]) == 100_000
        assert hard.truncated


def test_a_translation_at_its_limit_is_reported(model, tokenizer):
    texts = ["house", "dog", "Haus", "Hund"]
    house, dog, haus, hund = tokenizer.tokenize(texts).row_lengths().numpy()
    assert haus < house and hund > dog
    # No longer than the source: "Haus" fits, "Hund" does not.
    strict = Translator(model, tokenizer, BeamSearch(extra_length=0))
    fits, cut = strict.translate(["house", "dog"])
    assert fits.texts == ["Haus"] and not fits.truncated
    assert cut.texts != ["Hund"] and cut.truncated


def test_a_source_at_the_models_length_is_not_cut(translator):
    # One token a letter; the end token takes the last place of MAX_LENGTH.
    limit = translator.model.config.max_length
    letters = "QXQXQX" * limit

    def text_of(count):
        ids = translator.tokenizer.tokenize(tf.constant([letters]))[0, :count]
        return translator.tokenizer.detokenize(ids[None])

    for count, expected in ((limit - 1, False), (limit, True)):
        ids, lengths, cut = translator.source_ids(text_of(count))
        assert ids.shape == (1, limit)
        assert lengths.numpy() == [limit]
        assert ids[0, -1] == translator.model.config.eos_id
        assert cut.numpy() == [expected]


@pytest.mark.parametrize("n", [1, 2, 4])
def test_n_best(model, tokenizer, n):
    search = BeamSearch(beam_size=4, extra_length=12)
    translator = Translator(model, tokenizer, search, num_translations=n)
    texts = ["The old tree sleeps.", "", "dog"]
    for translation in translator.translate(texts):
        assert len(translation.texts) == len(translation.scores) == n
        assert translation.scores == sorted(translation.scores, reverse=True)
    assert translator(texts) == ["Baum schläft, der alte.", "", "Hund"]


@pytest.mark.parametrize("beam_size, alpha", [(1, 0.6), (4, 0.0), (4, 1.0)])
def test_scores_are_those_of_force_decoding(
    model, tokenizer, pairs, beam_size, alpha
):
    search = BeamSearch(beam_size, alpha, extra_length=12)
    translator = Translator(model, tokenizer, search, beam_size)
    texts = [*list(pairs)[::5], "cat dog", "no such sentence"]
    source, _, _ = translator.source_ids(tf.constant(texts))
    result = translator.search_ids(source)
    assert result.ids.shape[:2] == (len(texts), beam_size)
    for beam in range(beam_size):
        np.testing.assert_allclose(
            translator.score_ids(source, result.ids[:, beam]),
            result.scores[:, beam],
            rtol=1e-4,
            atol=1e-5,
        )


def test_score_of_a_translation_is_the_reported_one(translator, pairs):
    sources = list(pairs)
    found = translator.translate(sources)
    best = [translation.texts[0] for translation in found]
    np.testing.assert_allclose(
        translator.score(sources, best),
        [translation.scores[0] for translation in found],
        rtol=1e-4,
        atol=1e-5,
    )
    # A wrong translation is worse, and an empty list is no trouble.
    right, wrong = translator.score(["dog", "dog"], ["Hund", "Katze"])
    assert wrong < right < 0.0
    assert translator.score([], []) == []


def test_score_wants_a_target_for_each_source(translator):
    with pytest.raises(InputError, match="Received: 2 sources, 1 targets"):
        translator.score(["dog", "cat"], ["Hund"])


@pytest.mark.parametrize("n", [0, 5])
def test_wrong_number_of_translations(model, tokenizer, n):
    with pytest.raises(InputError, match=f"num_translations={n}, beam_size=4"):
        Translator(model, tokenizer, num_translations=n)


def test_a_tokenizer_of_another_model(model, pairs):
    other = Tokenizer.train([*pairs, *pairs.values()], vocab_size=320)
    with pytest.raises(InputError, match="320, 0, 2, 3.* of the tokenizer"):
        Translator(model, other)


def test_score_of_an_empty_source_is_the_reported_one(translator):
    (found,) = translator.translate([""])
    assert translator.score([""], found.texts[:1]) == found.scores[:1]


def test_score_refuses_what_it_would_have_to_cut(translator):
    with pytest.raises(InputError, match="must not exceed"):
        translator.score(["dog"], ["dog " * 2000])


def test_a_single_text_is_refused(translator):
    with pytest.raises(InputError, match="put it into a list"):
        translator("dog")


def test_any_iterable_of_texts_will_do(translator):
    texts = ["dog", "cat"]
    assert translator(iter(texts)) == translator(texts)
