"""Models of other systems as SavedModels.

The vocabulary has a table, its own start token, no end tokens of sources, and
language tokens at the beginning of sources.
"""

import numpy as np
import pytest
from random_models import random_translator, table_vocabulary

import keras_transformer as kt
from keras_transformer.convert.foreign_model import NEVER
from keras_transformer.export.saved_model.to_saved_model import Signatures
from keras_transformer.inference.served import ServedBackend

TEXTS = ["The good house sleeps.", "", ">>fra<< dog", "dog " * 40]
# Blank, and with a soft hyphen, which imported vocabularies keep.
INVISIBLE = ["\u00ad\u200b", "\0", ">>fra<< d\u00adog"]
SCORED = ["good cat", "Hund", "cat"]


@pytest.fixture(scope="module")
def translator(tokenizer):
    """A translator that never writes padding, as when imported."""
    vocabulary = table_vocabulary(tokenizer, True, "<pad>")
    model = random_translator(
        vocabulary,
        num_layers=1,
        attention_bias=True,
        output_bias=True,
        activation="swish",
        position_layout="halves",
        layer_norm_epsilon=1e-5,
        tied_embeddings="target",
    ).model
    bias = model.output_embedding.bias
    is_pad = np.arange(vocabulary.vocab_size) == vocabulary.pad_id
    bias.assign(np.where(is_pad, NEVER, bias))
    search = kt.BeamSearch(2, alpha=0.5, extra_length=9, length_penalty="power")
    return kt.Translator(model, vocabulary, search)


@pytest.fixture(scope="module")
def served(translator):
    """The translator as a SavedModel, before it is saved."""
    functions = Signatures(translator).make([])

    def predict(name, inputs):
        outputs = functions[name](**inputs)
        return {key: value.numpy() for key, value in outputs.items()}

    metadata = {"languages": ["deu", "fra"], "num_translations": 1}
    backend = ServedBackend(predict, "imported", functions, metadata)
    return kt.Translator.served(backend)


def test_translations(translator, served):
    texts = TEXTS + INVISIBLE
    found, expected = served.translate(texts), translator.translate(texts)
    assert [x.texts for x in found] == [x.texts for x in expected]
    assert [i for i, x in enumerate(found) if x.source_truncated] == [3]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-4)
    assert [(x.texts, x.scores) for x in found[4:6]] == [([""], [0.0])] * 2
    assert found[6].scores != found[2].scores
    with pytest.raises(kt.InputError, match="deu, fra. .*>>de<< in text 2"):
        served(["dog", ">>de<< dog"])


def test_scores(translator, served):
    found, expected = (
        [x.score for x in one.score(TEXTS[:3], SCORED)]
        for one in (served, translator)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    # The model reads the language.
    first, other = served.score(["a dog", ">>fra<< a dog"], ["cat"] * 2)
    assert abs(first.score - other.score) > 1e-3
    (score,) = served.score(["\u00ad"], [""])
    assert score.log_prob == 0
