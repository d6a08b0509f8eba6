"""Models of other systems leave again: to TensorFlow, LiteRT, Hugging Face.

For CTranslate2 that is in test_ctranslate2.py. The vocabulary has a table, a
start token of its own and a language token that sources begin with.
"""

import numpy as np
import pytest
import tensorflow as tf
from random_models import random_translator, table_vocabulary

import keras_transformer as kt
from keras_transformer import convert
from keras_transformer.litert import LiteRTTranslator

TEXTS = ["The good house sleeps.", "", ">>fra<< dog", "dog " * 40]
MARIAN = dict(
    num_layers=1,
    attention_bias=True,
    output_bias=True,
    activation="swish",
    position_layout="halves",
    layer_norm_epsilon=1e-5,
    tied_embeddings="target",
)


def imported(tokenizer, **special):
    """A translator that would never start with padding, as when imported."""
    vocabulary = table_vocabulary(tokenizer, separate=True, **special)
    translator = random_translator(vocabulary, **MARIAN)
    layer = translator.model.output_embedding
    is_pad = np.arange(vocabulary.vocab_size) == vocabulary.pad_id
    layer.bias.assign(np.where(is_pad, convert.model.NEVER, layer.bias))
    return kt.Translator(
        translator.model,
        vocabulary,
        kt.BeamSearch(2, 0.5, 9, length_penalty="power"),
    )


@pytest.fixture(params=["</s>", "<pad>"], ids=["end", "no end"])
def translator(request, tokenizer):
    """Sources end with a token, or with nothing."""
    return imported(tokenizer, source_eos_token=request.param)


def check(translator, found, scored):
    expected = translator.translate(TEXTS)
    assert [one.texts for one in found] == [one.texts for one in expected]
    assert [one.source_truncated for one in found] == [0, 0, 0, 1]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-4)
    expected = translator.score(TEXTS[:1], ["good cat"])
    np.testing.assert_allclose(scored, expected[0].score, rtol=1e-4)
    # The language is read.
    first, other = translator.score(["a dog", ">>fra<< a dog"], ["cat"] * 2)
    assert abs(first.score - other.score) > 1e-3


def test_litert(translator, tmp_path):
    path = kt.export.save_litert(translator, tmp_path / "model")
    loaded = LiteRTTranslator.open(path)
    (score,) = loaded.score(TEXTS[:1], ["good cat"])
    check(translator, loaded.translate(TEXTS), score.score)


def test_saved_model(translator, tmp_path):
    path = kt.export.save(
        translator,
        tmp_path / "1",
        include=["serving_default", "score", "attention"],
    )
    signatures = tf.saved_model.load(path).signatures
    outputs = signatures["serving_default"](text=tf.constant(TEXTS))
    found = [text.decode() for text in outputs["translation"].numpy()]
    assert found == translator(TEXTS)
    scored = signatures["score"](
        text=tf.constant(TEXTS[:1]), translation=tf.constant(["good cat"])
    )
    check(translator, translator.translate(TEXTS), scored["score"].numpy()[0])
    pieces = signatures["attention"](
        text=tf.constant(["dog"]), translation=tf.constant(["cat"])
    )["source_pieces"]
    assert pieces.numpy()[0].decode().startswith(">>deu<< ")


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
