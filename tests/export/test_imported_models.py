"""Models of other systems leave again, as SavedModels.

The vocabulary has a table, a start token of its own and a language token that
sources begin with.
"""

import numpy as np
import pytest
import tensorflow as tf
from random_models import imported_translator as imported

from keras_transformer.export.saved_model.signatures import (
    Signatures,
)
from keras_transformer.inference.served import ServedTranslator
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


def test_signatures(translator):
    """As they are saved; the slow tests load them."""
    signatures = Signatures(translator).make([])
    outputs = signatures["serving_default"](tf.constant(TEXTS))
    found = [text.decode() for text in outputs["translations"].numpy()[:, 0]]
    assert found == translator(TEXTS)
    scored = signatures["score"](tf.constant(TEXTS[:3]), tf.constant(SCORED))
    check(translator, translator.translate(TEXTS), scored["scores"].numpy())


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


def test_a_saved_model_refuses_languages_that_it_lacks(tokenizer):
    translator = imported(tokenizer)
    functions = Signatures(translator).make([])
    for languages, text, is_refused in (
        (["deu", "fra"], ">>de<< dog", True),
        (["deu", "fra"], ">>fra<< dog", False),
        (["deu", "fra"], "dog", False),
    ):
        opened = ServedTranslator(
            lambda name, texts: {
                output: values.numpy()
                for output, values in functions[name](**texts).items()
            },
            "imported",
            functions,
            1,
            metadata={"languages": languages},
        )
        if is_refused:
            message = "such as >>deu<<,.*deu, fra. Received: >>de<< in text 2"
            with pytest.raises(InputError, match=message):
                opened(["dog", text])
            with pytest.raises(InputError, match="Received: >>de<< in text 1"):
                translator.attention(text)
        else:
            assert opened.translate(text).texts
