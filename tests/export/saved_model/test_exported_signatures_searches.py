"""How many hypotheses each signature asks the search for."""

import dataclasses

import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.decoding.settings import Sampling, converted
from keras_transformer.export.saved_model.exported_signatures import Signatures
from keras_transformer.inference.text_pipeline import TextPipeline


class Searched(Exception):
    """Has the number of hypotheses that a search was asked for."""


def test_signatures_search_for_what_they_return(translator, monkeypatch):
    def refuse(self, source, count, *rest):
        raise Searched(count)

    monkeypatch.setattr(TextPipeline, "search", refuse)
    search = kt.BeamSearch(4)
    model, tokenizer = translator.model, translator.tokenizer
    searching = kt.Translator(model, tokenizer, search, num_translations=2)
    counts = {}
    functions = Signatures(searching).make()
    del functions["score"]
    for name, function in functions.items():
        with pytest.raises(Searched) as info:
            function.get_concrete_function()
        (counts[name],) = info.value.args
    of_options = counts.pop("translate_with_options")
    assert of_options.name.startswith("beam_size")
    assert counts == dict(
        serving_default=2, translate_prefix=2, translate_nbest=4
    )


def test_signatures_repeat_no_ngram(translator, pairs):
    texts = tf.constant([f"{text} {text}" for text in pairs])
    repeats = []
    for size in (0, 1):
        search = dataclasses.replace(translator.search, no_repeat_ngram=size)
        own = kt.Translator(translator.model, translator.tokenizer, search)
        # As translate_with_options gets it.
        search = converted(search, Sampling)
        assert converted(search, kt.BeamSearch).no_repeat_ngram == size
        found = Signatures(own)._translate_nbest(texts)["pieces"]
        rows = [x.split() for x in found.numpy().reshape(-1)]
        repeats.append(sum(len({*row}) < len(row) for row in rows))
    assert repeats[0] > 0 == repeats[1]
