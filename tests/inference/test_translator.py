import numpy as np
import pytest
import tensorflow as tf
from helpers import assert_same_translations as assert_same
from padded_search import numpy_engine

import keras_transformer as kt
from keras_transformer.inference.records import Translation
from keras_transformer.support.errors import InputError

DIFFICULT = {
    "empty": "",
    "blank": " \t\n ",
    "one word": "dog",
    "NUL": "The red\0dog sleeps.",
    "emoji": "The 👩‍👩‍👧‍👦 sleeps. 🇩🇪",
    "different script": "猫は魚が好きです。",
    "100,000 characters": "The red dog " * 8_333 + "red.",
    "100,000 characters in one word": "x" * 100_000,
    "special tokens as text": "<s></s><pad><unk>",
}


@pytest.fixture
def eager(model, tokenizer):
    """Returns a function from a search to a translator without a graph."""
    engine = numpy_engine(model, tokenizer)
    return lambda search: kt.Translator(engine, tokenizer, search)


# === Translations ===


def test_a_text_without_one_of_several_languages(model, pairs):
    tags = [">>deu<<", ">>fra<<"]
    texts = [*pairs, *pairs.values()]
    tokenizer = kt.Tokenizer.train(texts, model.config.vocab_size, tags=tags)
    several = kt.Translator(model, tokenizer)
    for use in (
        several.translate,
        several.translate_document,
        several.attention,
        lambda text: several.score(text, "Hund"),
    ):
        with pytest.raises(InputError, match="text 1, 'dog'"):
            use("dog")


def test_translates_the_training_set(translator, pairs):
    assert len(pairs) == 24
    assert translator(list(pairs)) == list(pairs.values())


def test_results_are_plain_python_values(translator):
    (translation,) = translator.translate(["dog"])
    assert [type(text) for text in translation.texts] == [str] * 3
    assert [type(score) for score in translation.scores] == [float] * 3
    assert translation.source_truncated is False
    assert translation.at_length_limit is False
    score = translator.score("dog", "Hund")
    assert list(map(type, score)) == [*[float] * 3, int]


def test_a_translation_does_not_depend_on_its_batch(translator, pairs):
    texts = [*DIFFICULT.values(), *list(pairs)[::6]]
    together = translator.translate(texts, batch_tokens=100_000, workers=2)
    assert len(together) == len(texts)
    for text, translation in zip(texts, together, strict=True):
        assert_same([translator.translate(text)], [translation])
        assert np.isfinite(translation.scores).all()
        assert translation.scores == sorted(translation.scores, reverse=True)
        assert translation.source_truncated or len(text) < 100_000
    for blank in together[:2]:
        assert blank == Translation(["", "", ""], [0.0, 0.0, 0.0], False, False)


def test_texts_are_tokenized_once(translator, pairs, monkeypatch):
    texts, encode = [], translator.tokenizer.encode_sources

    def watch(sources):
        texts.extend(sources)
        return encode(sources)

    monkeypatch.setattr(translator.tokenizer, "encode_sources", watch)
    translator.translate(list(pairs), batch_tokens=24)
    assert len(texts) == len(pairs)


def test_numbers_that_differ_are_reported(translator):
    found = translator.translate(
        ["dog", "dog 7"], prefixes=["Hund 7", "Hund 7"]
    )
    assert [x.numbers_differ for x in found] == [True, False]


# === The limits of the model and of the search ===


def test_a_translation_at_its_limit_is_reported(eager, tokenizer):
    texts = ["house", "dog", "Haus", "Hund"]
    house, dog, haus, hund = map(len, tokenizer.encode(texts))
    assert haus < house and hund > dog
    # No longer than the source: "Haus" fits, "Hund" does not.
    fits, cut = eager(kt.BeamSearch(extra_length=0)).translate(texts[:2])
    assert fits == Translation(["Haus"], fits.scores, False, False)
    assert cut.texts != ["Hund"]
    assert not cut.source_truncated and cut.at_length_limit


def test_a_source_at_the_length_of_the_model_is_not_cut(translator):
    # One token per letter; the end token takes the last position.
    limit = translator.model.config.max_length
    (ids,) = translator.tokenizer.encode(["QXQXQX" * limit])
    for count, expected in ((limit - 1, False), (limit, True)):
        text = translator.tokenizer.decode(ids[:count])
        assert translator.translate(text).source_truncated == expected


def test_a_prefix_per_text(translator):
    texts = ["dog", "cat", "The red dog sleeps."]
    prefixes = ["", "Baum", "Kat"]
    found = translator.translate(texts, prefixes=prefixes)
    assert found[0].texts[0] == "Hund"
    for prefix, translation in zip(prefixes, found, strict=True):
        assert all(text.startswith(prefix) for text in translation.texts)
    alone = translator.translate(texts[1], prefixes=prefixes[1])
    assert_same([alone], found[1:2])


def test_a_prefix_is_kept_whatever_the_limits(eager):
    translator = eager(kt.BeamSearch(length_factor=0.0, extra_length=0))
    # Only the prefix and the end token fit.
    for prefix in ("Ich", "Hund schläft"):
        found = translator.translate("dog", prefixes=prefix)
        assert found.texts == [prefix] and np.isfinite(found.scores[0])
        assert found.at_length_limit and not found.source_truncated
    found = translator.translate("dog", prefixes="Hund " * 30)
    assert found.texts[0].startswith("Hund Hund")
    assert found.at_length_limit and found.source_truncated


# === Scores ===


def test_log_probability_and_perplexity(model, tokenizer):
    texts, targets = ["dog", "The red cat", ""], ["Hund", "Katze", ""]
    translator = kt.Translator(model, tokenizer, kt.BeamSearch(alpha=0.5))
    found = translator.score(texts, targets)
    lengths = [len(ids) + 1 for ids in tokenizer.encode(targets)]
    for score, length in zip(found, lengths, strict=True):
        assert score.num_tokens == length
        penalty = ((5 + length) / 6) ** 0.5
        assert score.score == pytest.approx(score.log_prob / penalty, rel=1e-5)
        expected = np.exp(-score.log_prob / length)
        assert score.perplexity == pytest.approx(expected, rel=1e-4)
    assert found[2] == (0.0, 0.0, 1.0, 1)  # of an empty source
    assert translator.score("", "Baum").perplexity > 1.1
    assert translator.score("dog", "Hund") == pytest.approx(found[0], rel=1e-4)


@pytest.mark.filterwarnings("error")
def test_lengths_of_one_cause_no_warning(eager):
    # Keras warns about a softmax over an axis of length 1.
    translator = eager(kt.BeamSearch(beam_size=1))
    assert translator("") == ""
    assert translator.score("", "").score == 0.0
    assert translator.score("dog", "").score < 0.0


# === Attention ===


def words(pieces):
    """Joins pieces to words; special tokens are words of their own."""
    text = "".join(
        f" {piece} " if piece in ("<s>", "</s>") else piece for piece in pieces
    )
    return text.replace("▁", " ").split()


def test_attention(translator):
    attention = translator.attention("The red dog sleeps.")
    source, target = attention.source_tokens, attention.target_tokens
    assert words(source) == ["The", "red", "dog", "sleeps.", "</s>"]
    assert words(target) == ["<s>", "Hund", "schläft,", "der", "rote."]
    # It is the attention of the model for these tokens.
    ids = [ids_of_pieces(translator, tokens) for tokens in (source, target)]
    expected = translator.model.attention_scores(*ids)
    for kind in ("encoder", "decoder", "cross"):
        ((layer,), (scores,)) = (
            getattr(x, kind) for x in (attention, expected)
        )
        np.testing.assert_allclose(layer, scores[0], rtol=1e-4, atol=1e-5)


def ids_of_pieces(translator, pieces):
    vocabulary = translator.tokenizer.pieces(range(330))
    return tf.constant([[vocabulary.index(piece) for piece in pieces]])


def test_attention_of_each_hypothesis(translator):
    texts = translator.translate("The red dog sleeps.").texts
    for i, text in enumerate(texts):
        attention = translator.attention("The red dog sleeps.", i)
        assert attention.source == "The red dog sleeps."
        assert attention.output == text
        pieces = "".join(attention.target_tokens[1:])
        assert pieces.replace("▁", " ").strip() == text
    for wrong in (-1, 3):
        with pytest.raises(InputError, match=f"hypothesis .*{wrong}"):
            translator.attention("dog", wrong)


@pytest.mark.parametrize(
    "text, received",
    [
        ("dog " * 2000, "4000 tokens"),
        ("", "0 tokens"),
        (["dog"], "text=.'dog'"),
        (3, "text=3"),
    ],
)
def test_attention_for_an_invalid_text(translator, text, received):
    with pytest.raises(InputError, match=received):
        translator.attention(text)
