"""Two models in one process answer as each does alone."""

import contextlib
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


@contextlib.contextmanager
def load_eagerly(folder):
    """Both models share the resources of the process."""
    loaded = tf.saved_model.load(folder)  # the signature does not keep it

    def translate(texts):
        outputs = loaded.signatures["serving_default"](
            text=tf.constant(texts, tf.string)
        )
        return {name: value.numpy() for name, value in outputs.items()}

    yield translate


@contextlib.contextmanager
def load_into_a_session(folder):
    """As a server does: a model has a graph and a session of its own."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        model = tf.compat.v1.saved_model.load(session, ["serve"], str(folder))
        signature = model.signature_def["serving_default"]
        fetch = {name: t.name for name, t in signature.outputs.items()}
        text = signature.inputs["text"].name
        yield lambda texts: session.run(fetch, {text: texts})


def assert_own_answers(outputs, expected):
    found = [[t.decode() for t in row] for row in outputs["translations"]]
    assert found == [t.texts for t in expected]
    np.testing.assert_allclose(
        outputs["scores"], [t.scores for t in expected], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("load", [load_eagerly, load_into_a_session])
def test_two_threads_get_the_answers_of_their_models(
    load, folders, translators
):
    barrier = threading.Barrier(len(TEXTS))
    answers = {name: [] for name in TEXTS}

    def call(name, translate):
        for _ in range(CALLS):
            barrier.wait(timeout=60)  # both models compute at the same time
            answers[name].append(translate(TEXTS[name]))

    with contextlib.ExitStack() as stack:
        threads = [
            threading.Thread(
                target=call, args=(name, stack.enter_context(load(folder)))
            )
            for name, folder in folders.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for name, translator in translators.items():
        expected = translator.translate(TEXTS[name])
        assert len(answers[name]) == CALLS
        for outputs in answers[name]:
            assert_own_answers(outputs, expected)


@pytest.mark.slow
def test_a_model_remains_when_another_with_its_tokenizer_is_unloaded(
    folders, translators
):
    """As when a server replaces a version."""
    text, expected = ["dog"], translators["en-de"].translate(["dog"])
    with load_eagerly(folders["en-de"]) as translate:
        with load_eagerly(folders["en-de"]) as old:
            assert_own_answers(old(text), expected)
        del old
        gc.collect()
        assert_own_answers(translate(text), expected)
