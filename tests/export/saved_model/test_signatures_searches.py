"""How many hypotheses each signature asks the search for."""

import pytest

import keras_transformer as kt
from keras_transformer.export.saved_model.signatures import Signatures
from keras_transformer.inference.graph_engine import GraphEngine


class Searched(Exception):
    """Has the number of hypotheses that a search was asked for."""


def test_signatures_search_for_what_they_return(translator, monkeypatch):
    def refuse(self, source, prefix, limits, settings, count):
        raise Searched(count)

    monkeypatch.setattr(GraphEngine, "search_tensors", refuse)
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
