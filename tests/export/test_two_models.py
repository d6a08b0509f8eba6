"""Two models in one process answer as each does alone."""

import gc
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's ops

import keras_transformer as kt

TEXTS = {
    "en-de": ["The good house sleeps.", "dog", "", "Où est la gare ?"],
    "fr-it": ["Où est la gare ?", "", "The good house sleeps."],
}
CALLS = 10  # of each model

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def translators(translator):
    """The second has other texts, another vocabulary and other shapes."""
    keras.utils.set_random_seed(1)
    tokenizer = kt.Tokenizer.train(
        [
            "Où est la gare ? À gauche, après le pont.",
            "Dov'è la stazione? A sinistra, dopo il ponte.",
        ],
        vocab_size=300,
    )
    config = kt.TransformerConfig(
        vocab_size=tokenizer.vocab_size,
        num_layers=2,
        d_model=16,
        d_ff=24,
        num_heads=2,
        max_length=12,
    )
    other = kt.Translator(
        kt.Transformer(config, dtype="float32"),
        tokenizer,
        kt.BeamSearch(beam_size=2, alpha=1.0, extra_length=4),
        num_translations=2,
    )
    return {"en-de": translator, "fr-it": other}


@pytest.fixture(scope="module")
def folders(translators, exported, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "fr-it" / "1"
    other = kt.export.save(translators["fr-it"], path, [])
    return {"en-de": exported, "fr-it": other}


def assert_own_answers(outputs, expected):
    rows = outputs["translations"].numpy()
    found = [[text.decode() for text in row] for row in rows]
    assert found == [t.texts for t in expected]
    scores = [t.scores for t in expected]
    np.testing.assert_allclose(outputs["scores"], scores, rtol=1e-4, atol=1e-5)


def test_two_threads_get_the_answers_of_their_models(folders, translators):
    """Both models share the resources of the process."""
    loaded = {name: tf.saved_model.load(x) for name, x in folders.items()}
    barrier = threading.Barrier(len(TEXTS))
    answers = {name: [] for name in TEXTS}

    def call(name):
        text = tf.constant(TEXTS[name], tf.string)
        for _ in range(CALLS):
            barrier.wait(timeout=60)  # both models compute at the same time
            outputs = loaded[name].signatures["serving_default"](text=text)
            answers[name].append(outputs)

    threads = [threading.Thread(target=call, args=(name,)) for name in TEXTS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, translator in translators.items():
        expected = translator.translate(TEXTS[name])
        assert len(answers[name]) == CALLS
        for outputs in answers[name]:
            assert_own_answers(outputs, expected)


def test_a_model_remains_when_another_with_its_tokenizer_is_unloaded(
    exported, translator
):
    """As when a server replaces a version."""
    kept, old = (tf.saved_model.load(exported) for _ in range(2))
    text, expected = tf.constant(["dog"]), translator.translate(["dog"])
    outputs = old.signatures["serving_default"](text=text)
    assert_own_answers(outputs, expected)
    del old
    gc.collect()
    outputs = kept.signatures["serving_default"](text=text)
    assert_own_answers(outputs, expected)
