"""Every signature of a SavedModel, compared with the translator."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's ops
from tokenizer_texts import odd_texts

import keras_transformer as kt
from keras_transformer.export.saved_model import to_saved_model
from keras_transformer.export.saved_model.to_saved_model import (
    SIGNATURES,
    Signatures,
)
from keras_transformer.inference.keras_engine import KerasEngine
from keras_transformer.support.errors import InputError

TEXTS = ["The good house sleeps.", "dog", "", "The red\0cat sleeps."]


@pytest.fixture(scope="module")
def loaded(exported):
    return tf.saved_model.load(exported).signatures


@pytest.fixture(scope="module")
def call(loaded, translator):
    """Returns the outputs of a signature as arrays, with decoded strings.

    Two signatures are not exported here. For `translate_with_options` the
    search has a length penalty of its own.
    """
    power = with_search(translator, length_penalty="power")
    nbest = Signatures(translator).make(["translate_nbest"])
    functions = Signatures(power).make(["translate_with_options"])
    functions["translate_nbest"] = nbest["translate_nbest"]

    def call(name, **inputs):
        specs = {spec.name: spec for spec in SIGNATURES[name]}
        inputs = {k: tf.constant(inputs[k], x.dtype) for k, x in specs.items()}
        if name in loaded:
            outputs = loaded[name](**inputs)
        else:
            outputs = functions[name](*inputs.values())
        found = {key: value.numpy() for key, value in outputs.items()}
        return {
            key: np.char.decode(value.astype("S"), "utf-8")
            if value.dtype == object
            else value
            for key, value in found.items()
        }

    return call


def with_search(translator, beam_size=4, **search):
    search = kt.BeamSearch(beam_size, **search)
    model, tokenizer = translator.model, translator.tokenizer
    return kt.Translator(model, tokenizer, search, beam_size)


def assert_translations(outputs, expected):
    assert outputs["translations"].tolist() == [t.texts for t in expected]
    np.testing.assert_allclose(
        outputs["scores"], [t.scores for t in expected], rtol=1e-4, atol=1e-5
    )


def test_inputs_and_outputs(loaded):
    found = {}
    for name, signature in loaded.items():
        _, inputs = signature.structured_input_signature
        assert inputs == {spec.name: spec for spec in SIGNATURES[name]}
        found[name] = set(signature.structured_outputs)
    translations = {"translations", "scores"}
    translations |= {"at_length_limit", "source_truncated"}
    assert found == {
        "serving_default": translations,
        "translate_prefix": translations,
        "score": {
            *("scores", "log_probs", "perplexities", "token_log_probs"),
            *("lengths", "pieces"),
            *("source_truncated", "translation_truncated"),
        },
    }


def test_nbest_has_all_hypotheses_with_their_pieces(call, translator):
    outputs = call("translate_nbest", text=TEXTS)
    search = vars(translator.search)
    expected = with_search(translator, **search).translate(TEXTS)
    assert_translations(outputs, expected)
    for texts, pieces, lengths in zip(
        outputs["translations"],
        outputs["pieces"],
        outputs["lengths"],
        strict=True,
    ):
        for text, joined, length in zip(texts, pieces, lengths, strict=True):
            words = joined.split()  # "\u2581" stands for a space
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


def test_options_of_a_request(call, translator):
    """The other settings, such as the length penalty, are the model's."""
    options = dict(beam_size=3, alpha=2.0, extra_length=0, length_factor=1.5)
    outputs = call("translate_with_options", text=TEXTS, **options)
    power = with_search(translator, **options, length_penalty="power")
    expected = power.translate(TEXTS)
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
def test_invalid_options(call, name, value):
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


@pytest.mark.parametrize("name", ["translate_prefix", "score"])
def test_pairs_of_any_texts(call, name):
    texts = [*odd_texts(20), "x" * 50_000, b"d\xffog \xe2\x82", "dog"]
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
        with pytest.raises(tf.errors.InvalidArgumentError, match="All inputs"):
            call(name, **dict(zip(keys, rows, strict=True)))


def test_a_large_batch_is_decoded_in_slices(
    loaded, translator, pairs, monkeypatch
):
    sources, targets = [*pairs, ""], [*pairs.values(), "Hund"]
    inputs = {
        "text": tf.constant(sources),
        "translation": tf.constant(targets),
    }
    expected = loaded["score"](**inputs)
    length = expected["token_log_probs"].shape[1]
    largest = 7 * length * translator.tokenizer.vocab_size
    monkeypatch.setattr(to_saved_model, "_LARGEST", largest)
    batches = []
    original = translator.engine.token_log_probs

    def watch(first, *args):
        rows = tf.shape(first)[0]
        tf.py_function(lambda x: batches.append(int(x)), [rows], [])
        return original(first, *args)

    monkeypatch.setattr(translator.engine, "token_log_probs", watch)
    sliced = Signatures(translator).make([])
    found = sliced["score"](*inputs.values())
    assert batches == [7, 7, 7, 4]
    for output, value in expected.items():
        if value.dtype == tf.float32:
            np.testing.assert_allclose(
                found[output], value, rtol=1e-4, atol=1e-4
            )
        else:
            assert found[output].numpy().tolist() == value.numpy().tolist()


def test_numbers_of_hypotheses(translator, monkeypatch):
    """Signatures search for as many as they return."""

    class Searched(Exception):
        """Interrupts the tracing."""

    def search(self, source, prefix, limits, settings, count):
        raise Searched(count)

    monkeypatch.setattr(KerasEngine, "search_tensors", search)
    model, tokenizer = translator.model, translator.tokenizer
    two = kt.Translator(model, tokenizer, kt.BeamSearch(4), 2)
    counts = {}
    for name, function in Signatures(two).make().items():
        if name != "score":
            with pytest.raises(Searched) as info:
                function.get_concrete_function()
            (counts[name],) = info.value.args
    assert counts.pop("translate_with_options").name.startswith("beam_size")
    assert counts == dict(
        serving_default=2, translate_prefix=2, translate_nbest=4
    )


def test_names_of_signatures(translator):
    made = Signatures(translator).make(["translate_nbest"])
    assert set(made) == {"serving_default", "score", "translate_nbest"}
    assert set(Signatures(translator).make()) == set(SIGNATURES)
    with pytest.raises(InputError, match="'greedy'"):
        Signatures(translator).make(["greedy"])
