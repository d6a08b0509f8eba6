"""Searches for translations of padded ids, and the search of all backends."""

import keras_transformer as kt
from keras_transformer.inference.keras_engine import KerasEngine


def numpy_engine(model, tokenizer):
    """Returns the engine that a backend without graphs has."""
    engine = KerasEngine([model], tokenizer)
    engine._has_graphs = False
    return engine


def search_padded(model, vocabulary, source, search):
    """Returns all hypotheses for sources `[B, S]` with their end tokens."""
    rows = [
        [x for x in row if x != vocabulary.pad_id] for row in source.tolist()
    ]
    end = vocabulary.source_eos_id
    if end != vocabulary.pad_id:
        rows = [row[:-1] for row in rows]
    translator = kt.Translator(model, vocabulary, search)
    nothing = [[]] * len(rows)
    return translator.engine.search(
        [[*row, end] for row in rows],
        nothing,
        translator.backend.limits(rows, nothing),
        search,
        search.beam_size,
    )
