"""Text in, text out: input types, order, difficult texts, scores, attention."""

import numpy as np
import pytest
import tensorflow as tf
from run_fixtures import create_run

import keras_transformer as kt
from keras_transformer.support.errors import InputError

DIFFICULT = {
    "empty": "",
    "blank": " \t\n ",
    "one word": "dog",
    "NUL": "The red\0dog sleeps.",
    "emoji": "The 👩‍👩‍👧‍👦 sleeps. 🇩🇪",
    "another script": "猫は魚が好きです。",
    "100,000 characters": "The red dog " * 8_333 + "red.",
    "100,000 characters in one word": "x" * 100_000,
    "special tokens as text": "<s></s><pad><unk>",
}


def assert_same(ours, theirs):
    """Batches of another shape are added up in another order."""
    assert ours.texts == theirs.texts
    assert ours[2:] == theirs[2:]
    np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-4, atol=1e-5)


# === Translations ===


def test_a_tokenizer_of_another_type(translator):
    with pytest.raises(InputError, match="tokenizer='tok"):
        kt.Translator(translator.model, "tokenizer.model")


def test_translates_what_the_model_has_learned(translator, pairs):
    assert len(pairs) == 24
    assert translator(list(pairs)) == list(pairs.values())


def test_results_are_plain_python_values(translator):
    (translation,) = translator.translate(["dog"])
    assert [type(text) for text in translation.texts] == [str] * 3
    assert [type(score) for score in translation.scores] == [float] * 3
    assert translation.source_truncated is False
    assert translation.at_length_limit is False


def test_workers(translator, pairs):
    expected = translator.translate(list(pairs))
    found = translator.translate(list(pairs), workers=3)
    for ours, theirs in zip(found, expected, strict=True):
        assert_same(ours, theirs)


def test_translation_does_not_depend_on_the_batch(translator, pairs):
    texts = [*DIFFICULT.values(), *list(pairs)[::6]]
    together = translator.translate(texts, batch_tokens=100_000)
    assert len(together) == len(texts)
    for text, translation in zip(texts, together, strict=True):
        assert_same(translator.translate(text), translation)
        assert np.isfinite(translation.scores).all()
        assert translation.source_truncated or len(text) < 100_000


@pytest.mark.parametrize("text", ["", " \t\n "])
def test_text_without_tokens(translator, text):
    (translation,) = translator.translate([text])
    assert translation == (["", "", ""], [0.0, 0.0, 0.0], False, False, False)


def test_n_best(model, tokenizer):
    n = 4
    search = kt.BeamSearch(beam_size=n, extra_length=12)
    translator = kt.Translator(model, tokenizer, search, num_translations=n)
    texts = ["The old tree sleeps.", "", "dog"]
    for translation in translator.translate(texts):
        assert len(translation.texts) == len(translation.scores) == n
        assert translation.scores == sorted(translation.scores, reverse=True)
    assert translator(texts) == ["Baum schläft, der alte.", "", "Hund"]


# === Input types ===


@pytest.mark.parametrize("text", ["cat", tf.constant("cat")])
def test_single_text(translator, text):
    assert translator(text) == "Katze"
    translation = translator.translate(text)
    assert translation.texts[0] == "Katze" and len(translation.scores) == 3
    assert translator.score(text, "Katze").score == pytest.approx(
        translation.scores[0], rel=1e-4
    )


def test_tensors_and_datasets_of_texts(translator):
    texts = tf.constant(["dog", "cat"])
    dataset = tf.data.Dataset.from_tensor_slices(texts)
    for several in (texts, [texts[0], np.array("cat")], dataset):
        assert translator(several) == ["Hund", "Katze"]


@pytest.mark.parametrize("texts", [[], tf.constant([], tf.string)])
def test_no_texts(translator, texts):
    assert translator(texts) == []
    assert translator.translate(texts) == []
    assert translator.score(texts, texts) == []


# === The limits of the model and of the search ===


def test_translation_at_its_limit_is_reported(model, tokenizer):
    texts = ["house", "dog", "Haus", "Hund"]
    house, dog, haus, hund = map(len, tokenizer.encode(texts))
    assert haus < house and hund > dog
    # No longer than the source: "Haus" fits, "Hund" does not.
    strict = kt.Translator(model, tokenizer, kt.BeamSearch(extra_length=0))
    fits, cut = strict.translate(["house", "dog"])
    assert fits == (["Haus"], fits.scores, False, False, False)
    assert cut.texts != ["Hund"]
    assert not cut.source_truncated and cut.at_length_limit


def test_source_at_the_length_of_the_model_is_not_cut(translator):
    # One token per letter; the end token takes the last position.
    limit = translator.model.config.max_length
    (ids,) = translator.tokenizer.encode(["QXQXQX" * limit])
    for count, expected in ((limit - 1, False), (limit, True)):
        text = translator.tokenizer.decode(ids[:count])
        assert translator.translate(text).source_truncated == expected


# === Scores ===


def test_log_probability_and_perplexity(model, tokenizer):
    texts, targets = ["dog", "The red cat", ""], ["Hund", "Katze", ""]
    translator = kt.Translator(model, tokenizer, kt.BeamSearch(alpha=0.5))
    found = translator.score(texts, targets)
    unpenalized = kt.Translator(model, tokenizer, kt.BeamSearch(alpha=0.0))
    lengths = [len(ids) + 1 for ids in tokenizer.encode(targets)]
    for score, plain, length in zip(
        found, unpenalized.score(texts, targets), lengths, strict=True
    ):
        assert plain.score == plain.log_prob
        assert score.log_prob == pytest.approx(plain.score, rel=1e-5)
        penalty = ((5 + length) / 6) ** 0.5
        assert score.score == pytest.approx(score.log_prob / penalty, rel=1e-5)
        expected = np.exp(-score.log_prob / length)
        assert score.perplexity == pytest.approx(expected, rel=1e-4)
    assert found[2] == (0.0, 0.0, 1.0, 1)  # of an empty source
    assert translator.score("", "Baum").perplexity > 1.1
    assert translator.score("dog", "Hund") == pytest.approx(found[0], rel=1e-4)


@pytest.mark.filterwarnings("error")
def test_lengths_of_one_cause_no_warning(model, tokenizer):
    # Keras warns about a softmax over an axis of length 1.
    translator = kt.Translator(model, tokenizer, kt.BeamSearch(beam_size=1))
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
    heads = translator.model.config.num_heads
    sizes = {
        "encoder": (heads, len(source), len(source)),
        "decoder": (heads, len(target), len(target)),
        "cross": (heads, len(target), len(source)),
    }
    for kind, size in sizes.items():
        (layer,) = getattr(attention, kind)
        assert layer.shape == size and layer.dtype == np.float32
        assert (layer >= 0.0).all()
        np.testing.assert_allclose(layer.sum(axis=-1), 1.0, rtol=1e-5)
        # Only the decoder does not see what follows.
        assert (np.triu(layer, k=1) == 0.0).all() == (kind == "decoder")
    # It is the attention of the model for these tokens.
    ids = [tokenizer_ids(translator, tokens) for tokens in (source, target)]
    expected = translator.model.attention_scores(*ids)
    np.testing.assert_allclose(
        attention.cross[0], expected.cross[0][0], rtol=1e-4, atol=1e-5
    )


def tokenizer_ids(translator, tokens):
    vocabulary = translator.tokenizer.pieces(range(330))
    return tf.constant([[vocabulary.index(token) for token in tokens]])


@pytest.mark.parametrize(
    "text, received",
    [
        ("dog " * 2000, "a text of 4000 tokens"),
        ("", "a text of 0 tokens"),
        (["dog"], "text=.'dog'"),
        (3, "text=3 of type int"),
    ],
)
def test_attention_of_an_invalid_text(translator, text, received):
    with pytest.raises(InputError, match=f"Received: {received}"):
        translator.attention(text)


def test_attention_of_another_hypothesis(model, tokenizer):
    several = kt.Translator(model, tokenizer, num_translations=2)
    texts = several.translate("The red dog sleeps.").texts
    for i, text in enumerate(texts):
        attention = several.attention("The red dog sleeps.", i)
        assert attention.source == "The red dog sleeps."
        assert attention.output == text
        pieces = "".join(attention.target_tokens[1:])
        assert pieces.replace("▁", " ").strip() == text
    for wrong in (-1, 2):
        with pytest.raises(InputError, match=f"Received: hypothesis={wrong}"):
            several.attention("dog", wrong)


# === Opening a run ===


@pytest.fixture(scope="module")
def run(model, tokenizer, tmp_path_factory):
    """A run with two checkpoints; the last one gives only empty texts."""
    path = tmp_path_factory.mktemp("runs") / "demo"
    run = create_run(path, model, tokenizer, step=80)
    other = kt.Transformer(model.config)
    for weight in other.weights:
        weight.assign(tf.zeros_like(weight.value))
    run.save_checkpoint(other, 90, 2)
    return path


def test_open_reads_the_checkpoint_of_a_run(run):
    search = kt.BeamSearch(beam_size=3)
    translator = kt.open_translator(
        run, checkpoint=80, search=search, num_translations=2
    )
    assert translator("dog") == "Hund"
    assert translator.search == search
    assert len(translator.translate("dog").texts) == 2


def test_open_reads_the_last_checkpoint_by_default(run):
    translator = kt.open_translator(str(run))
    assert all((w.numpy() == 0.0).all() for w in translator.model.weights)
    assert translator.search == kt.BeamSearch()
    assert translator.num_translations == 1
