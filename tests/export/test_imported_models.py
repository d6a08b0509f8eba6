"""Models of other systems leave again: to TensorFlow, LiteRT, Hugging Face.

For CTranslate2 that is in test_to_ctranslate2.py. The vocabulary has a table, a
start token of its own and a language token that sources begin with.
"""

import fuzz
import numpy as np
import pytest
import tensorflow as tf
from random_models import imported_translator as imported

import keras_transformer as kt
from keras_transformer import convert
from keras_transformer.export.saved_model.exported_signatures import (
    SIGNATURES,
    Signatures,
)
from keras_transformer.inference.saved_model import (
    SavedModelFolder,
    SavedModelTranslator,
)
from keras_transformer.litert import LiteRTTranslator
from keras_transformer.support.errors import InputError

TEXTS = ["The good house sleeps.", "", ">>fra<< dog", "dog " * 40]
SCORED = ["good cat", "Hund", "cat"]


@pytest.fixture(
    params=[
        pytest.param("</s>", id="end", marks=pytest.mark.slow),
        pytest.param("<pad>", id="no end"),
    ]
)
def translator(request, tokenizer):
    """Sources end with a token, or with nothing."""
    return imported(tokenizer, source_eos_token=request.param)


def check(translator, found, scored):
    expected = translator.translate(TEXTS)
    assert [one.texts for one in found] == [one.texts for one in expected]
    assert [one.source_truncated for one in found] == [0, 0, 0, 1]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-4)
    expected = [x.score for x in translator.score(TEXTS[:3], SCORED)]
    np.testing.assert_allclose(scored, expected, rtol=1e-4)
    # The language is read.
    first, other = translator.score(["a dog", ">>fra<< a dog"], ["cat"] * 2)
    assert abs(first.score - other.score) > 1e-3


@pytest.mark.slow  # tests/export/litert/test_graph.py has a faster one
def test_litert(translator, tmp_path):
    path = kt.export.save_litert(translator, tmp_path / "model")
    loaded = LiteRTTranslator.open(path)
    scores = loaded.score(TEXTS[:3], SCORED)
    found = loaded.translate(TEXTS)
    check(translator, found, [one.score for one in scores])


def test_signatures(translator):
    """As they are saved; the slow tests load them."""
    signatures = Signatures(translator).make(
        ["serving_default", "score", "tokenize"]
    )
    outputs = signatures["serving_default"](tf.constant(TEXTS))
    found = [text.decode() for text in outputs["translations"].numpy()[:, 0]]
    assert found == translator(TEXTS)
    scored = signatures["score"](tf.constant(TEXTS[:3]), tf.constant(SCORED))
    check(translator, translator.translate(TEXTS), scored["scores"].numpy())
    pieces = signatures["tokenize"](tf.constant(["dog"]))["pieces"]
    assert pieces.numpy()[0].decode().startswith(">>deu<< ")


def test_invisible_sources_are_empty_and_others_stay_as_they_are(tokenizer):
    """The vocabulary's own normalization, in which U+00AD is a character."""
    translator = imported(tokenizer)
    *blank, soft, plain = translator.translate(
        ["\u00ad\u200b", "\0", ">>fra<< d\u00adog", ">>fra<< dog"]
    )
    assert [(x.texts, x.scores) for x in blank] == [([""], [0.0])] * 2
    assert soft.scores != plain.scores
    (score,) = translator.score(["\u00ad"], [""])
    assert score.log_prob == 0


def test_a_prefix_of_unknown_characters_is_refused(tokenizer):
    translator = imported(tokenizer)
    texts = ["a dog"] * 2
    assert translator.translate(texts, prefixes=["", "Hund"])
    with pytest.raises(InputError, match="'Hund 🦩', of which '🦩' is unknown"):
        translator.translate(texts, prefixes=["", "Hund 🦩"])


def test_a_saved_model_refuses_languages_that_it_lacks(tokenizer, tmp_path):
    translator = imported(tokenizer)
    functions = Signatures(translator).make(["serving_default"])
    functions = {x: y.get_concrete_function() for x, y in functions.items()}
    for languages, text, is_refused in (
        (["deu", "fra"], ">>de<< dog", True),
        (["deu", "fra"], ">>fra<< dog", False),
        (["deu", "fra"], "dog", False),
        ([], ">>de<< dog", False),
    ):
        metadata = {
            **dict(languages=languages, num_translations=1),
            **dict(search={"beam_size": 1}, dtype=None, max_length=None),
        }
        folder = SavedModelFolder.of_metadata(tmp_path, metadata)
        opened = SavedModelTranslator(folder, functions)
        if is_refused:
            message = "such as >>deu<<,.*deu, fra. Received: >>de<< in text 2"
            with pytest.raises(InputError, match=message):
                opened(["dog", text])
            with pytest.raises(InputError, match="Received: >>de<< in text 1"):
                translator.attention(text)
        else:
            assert opened.translate(text).texts


@pytest.mark.slow  # test_to_hugging_face.py has faster ones
def test_huggingface(tokenizer, tmp_path):
    translator = imported(tokenizer)
    path = kt.export.save_huggingface(translator, tmp_path / "model")
    loaded = convert.load(path, "huggingface", "deu")
    assert loaded.search.length_penalty == "power"
    assert (loaded.search.beam_size, loaded.search.alpha) == (2, 0.5)
    search = kt.BeamSearch(1, extra_length=9)
    ours, back = (
        kt.Translator(one.model, one.tokenizer, search)
        for one in (translator, loaded)
    )
    texts = TEXTS[:3]  # a folder there takes longer ones
    assert back(texts) == ours(texts)


@pytest.fixture(scope="module")
def loaded(tokenizer, tmp_path_factory):
    """All signatures of a model whose vocabulary has a table."""
    translator = imported(tokenizer, 3, beam_size=4)
    path = tmp_path_factory.mktemp("imported") / "1"
    return tf.saved_model.load(kt.export.save(translator, path))


@pytest.mark.slow
@pytest.mark.parametrize("name", SIGNATURES)
def test_an_imported_model_answers_any_text(loaded, name):
    fuzz.check_any_text(loaded, name, 20, 400, L=1, H=2)
