"""Every signature of an exported model, compared with the translator."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's ops
from tokenizer_texts import odd_texts

import keras_transformer as kt
from keras_transformer.export.saved_model import signatures as own_signatures
from keras_transformer.export.saved_model.signatures import (
    SIGNATURES,
    Signatures,
)
from keras_transformer.support.errors import InputError

TEXTS = ["The good house sleeps.", "dog", "", "The red\0cat sleeps."]


@pytest.fixture(scope="module")
def loaded(translator, tmp_path_factory):
    """A model with all signatures, which is the default."""
    path = tmp_path_factory.mktemp("all") / "1"
    return tf.saved_model.load(kt.export.save(translator, path))


@pytest.fixture(scope="module")
def call(loaded):
    """Returns the outputs of a signature as arrays, strings decoded."""

    def call(name, **inputs):
        inputs = {key: tf.constant(value) for key, value in inputs.items()}
        outputs = {
            key: value.numpy()
            for key, value in loaded.signatures[name](**inputs).items()
        }
        return {
            key: np.char.decode(value.astype("S"), "utf-8")
            if value.dtype == object
            else value
            for key, value in outputs.items()
        }

    return call


def search_of(translator, **values):
    search = dict(beam_size=4, alpha=0.6, extra_length=12) | values
    return kt.Translator(
        translator.model,
        translator.tokenizer,
        kt.BeamSearch(**search),
        search["beam_size"],
    )


def assert_translations(outputs, expected):
    assert outputs["translations"].tolist() == [t.texts for t in expected]
    np.testing.assert_allclose(
        outputs["scores"], [t.scores for t in expected], rtol=1e-4, atol=1e-5
    )


def test_inputs_and_outputs_of_every_signature(loaded):
    found = {}
    for name, signature in loaded.signatures.items():
        _, inputs = signature.structured_input_signature
        assert inputs == {spec.name: spec for spec in SIGNATURES[name]}
        found[name] = sorted(signature.structured_outputs)
    flags = ["at_length_limit", "source_truncated"]
    translations = sorted([*flags, "scores", "translations"])
    assert found == {
        "serving_default": translations,
        "translate_nbest": sorted([*translations, "lengths", "pieces"]),
        "translate_prefix": translations,
        "translate_with_options": translations,
        "score": [
            "lengths",
            "log_probs",
            "perplexities",
            "pieces",
            "scores",
            "source_truncated",
            "token_log_probs",
            "translation_truncated",
        ],
    }


def test_nbest_has_all_hypotheses_with_their_pieces(call, translator):
    outputs = call("translate_nbest", text=TEXTS)
    expected = search_of(translator).translate(TEXTS)
    assert_translations(outputs, expected)
    for texts, pieces, lengths in zip(
        outputs["translations"],
        outputs["pieces"],
        outputs["lengths"],
        strict=True,
    ):
        for text, joined, length in zip(texts, pieces, lengths, strict=True):
            # The end token is a piece; "\u2581" stands for a space.
            words = joined.split()
            assert len(words) == length
            if words:
                assert words[-1] == "</s>"
                spelled = "".join(words[:-1]).replace("\u2581", " ")
                assert spelled.strip() == text or "<0x" in spelled
    assert outputs["lengths"][2].tolist() == [0] * 4


def test_prefix(call, translator):
    texts, prefixes = ["dog", "dog", "The red cat sleeps."], ["", "Katze", "H"]
    outputs = call("translate_prefix", text=texts, prefix=prefixes)
    expected = translator.translate(texts, prefixes=prefixes)
    assert_translations(outputs, expected)
    assert expected[0].texts[0] == "Hund"
    for prefix, translation in zip(prefixes, expected, strict=True):
        assert all(text.startswith(prefix) for text in translation.texts)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(
            dict(beam_size=5, alpha=0.0, extra_length=12, length_factor=0.0),
            marks=pytest.mark.slow,
        ),
        dict(beam_size=3, alpha=2.0, extra_length=0, length_factor=1.5),
    ],
)
def test_options_of_a_request(call, translator, options):
    outputs = call("translate_with_options", text=TEXTS, **options)
    expected = search_of(translator, **options).translate(TEXTS)
    assert_translations(outputs, expected)
    found = outputs["at_length_limit"].tolist()
    assert found == [t.at_length_limit for t in expected]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("beam_size", 0),
        ("beam_size", 257),
        ("alpha", -1.0),
        ("alpha", np.float32("nan")),
        ("extra_length", -1),
        ("length_factor", np.float32("inf")),
    ],
)
def test_invalid_options_are_refused(call, name, value):
    options = dict(beam_size=4, alpha=0.6, extra_length=12, length_factor=1.0)
    options[name] = value
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{name} must"):
        call("translate_with_options", text=["dog"], **options)


def test_score(call, translator):
    texts = ["dog", "cat", "The old tree sleeps.", ""]
    translations = ["Hund", "Hund", "Baum schläft, der alte.", "Hund"]
    outputs = call("score", text=texts, translation=translations)
    names = ["scores", "log_probs", "perplexities"]
    np.testing.assert_allclose(
        np.transpose([outputs[name] for name in names]),
        [score[:3] for score in translator.score(texts, translations)],
        rtol=1e-4,
        atol=1e-5,
    )
    lengths = outputs["lengths"]
    for i, translation in enumerate(translations):
        (tokens,) = translator.tokenizer.encode([translation])
        assert lengths[i] == len(tokens) + 1  # the end token
        assert len(outputs["pieces"][i].split()) == lengths[i]
        assert (outputs["token_log_probs"][i, lengths[i] :] == 0).all()
    log_probs = outputs["token_log_probs"].sum(axis=1)
    np.testing.assert_allclose(outputs["log_probs"], log_probs, atol=1e-5)
    np.testing.assert_allclose(
        outputs["perplexities"], np.exp(-log_probs / lengths), rtol=1e-4
    )
    # A wrong translation is less likely than the right one.
    assert outputs["perplexities"][1] > 10 * outputs["perplexities"][0]
    assert not outputs["translation_truncated"].any()


# === What a server does not check ===


@pytest.mark.parametrize("name", ["translate_prefix", "score"])
def test_any_texts_are_answered_in_pairs(call, name):
    texts = [*odd_texts(60), "x" * 50_000, b"d\xffog \xe2\x82", "dog"]
    keys = [spec.name for spec in SIGNATURES[name]]
    found, none = (
        call(name, **dict(zip(keys, (rows, rows[::-1]), strict=True)))
        for rows in (texts, np.array([], object))
    )
    for output, values in found.items():
        assert len(values) == len(texts) and len(none[output]) == 0
        if values.dtype == np.float32:
            assert np.isfinite(values).all()
    np.testing.assert_allclose(
        call(name, **{keys[0]: texts[-1:], keys[1]: texts[:1]})["scores"],
        found["scores"][-1:],
        rtol=1e-4,
        atol=1e-5,
    )
    for first, second in ((2, 1), (1, 2), (1, 0)):
        rows = (np.array(["dog"] * n, object) for n in (first, second))
        with pytest.raises(tf.errors.InvalidArgumentError, match="Each text"):
            call(name, **dict(zip(keys, rows, strict=True)))


@pytest.mark.parametrize(
    ("name", "method"),
    [
        pytest.param(
            "serving_default", "search_tensors", marks=pytest.mark.slow
        ),
        ("score", "token_log_probs"),
    ],
)
def test_a_large_batch_is_decoded_in_slices(
    loaded, translator, pairs, monkeypatch, name, method
):
    inputs = {"text": tf.constant([*pairs, ""])}
    if name == "score":
        inputs["translation"] = tf.constant([*pairs.values(), "Hund"])
    expected = loaded.signatures[name](**inputs)
    # Distributions over the vocabulary per text: of a hypothesis or a token.
    per_text = 4 if name != "score" else expected["token_log_probs"].shape[1]
    largest = 7 * per_text * translator.tokenizer.vocab_size
    monkeypatch.setattr(own_signatures, "_LARGEST", largest)
    batches = []
    original = getattr(translator.engine, method)

    def watch(first, *args):
        rows = tf.shape(first)[0]
        tf.py_function(lambda x: batches.append(int(x)), [rows], [])
        return original(first, *args)

    monkeypatch.setattr(translator.engine, method, watch)
    sliced = Signatures(translator).make([])
    found = sliced[name](*inputs.values())
    assert batches == [7, 7, 7, 4]
    for output, value in expected.items():
        if value.dtype == tf.float32:
            np.testing.assert_allclose(
                found[output], value, rtol=1e-4, atol=1e-4
            )
        else:
            assert found[output].numpy().tolist() == value.numpy().tolist()


def test_names_of_signatures(translator):
    made = Signatures(translator).make(["translate_nbest"])
    assert set(made) == {"serving_default", "score", "translate_nbest"}
    assert set(Signatures(translator).make()) == set(SIGNATURES)
    with pytest.raises(InputError, match="'greedy'"):
        Signatures(translator).make(["greedy"])
