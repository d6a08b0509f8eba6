"""Traces of a search over tables of probabilities."""

import types

import numpy as np
import pytest
from search_tables import BOS, EOS, PAD, UNK, VOCAB, TableDecoding, table_of

import keras_transformer as kt
from keras_transformer.decoding import numpy_search
from keras_transformer.text.ids import SpecialIds

# Two hypotheses per step: a and b live on, then both end, b's end being too
# unlikely to be among the two best of step 2.
TABLE = table_of(
    a=-1.0, b=-1.5, _=-2.5, aa=-0.7, a_=-1.2, ba=-2.0, b_=-0.9, aa_=-0.1
)
LETTERS = ["<pad>", "<unk>", "<s>", "</s>", "a", "b"]


def table_translator(table, search, max_length):
    """What `trace` needs of a translator. The source has no influence."""

    def pieces(ids):
        return [LETTERS[int(i)] for i in ids]

    def decode(vocabulary, ids, source):
        return "".join(x for x in pieces(ids) if x != "</s>"), False

    side = types.SimpleNamespace(pieces=pieces)
    ids = SpecialIds(BOS, EOS, PAD, banned_ids=(PAD, UNK, BOS))

    def find(sources, prefixes, limits, search, count, record):
        decoding = TableDecoding([table], VOCAB)
        prefix = np.zeros((1, 0), np.int32)
        numpy_search.beam_search(
            decoding, np.array(limits), search, ids, count, prefix, record
        )

    return types.SimpleNamespace(
        search=search,
        num_translations=search.beam_size,
        tokenizer=types.SimpleNamespace(
            pieces=pieces,
            source=side,
            target=side,
            source_eos_id=EOS,
            bos_id=BOS,
            eos_id=EOS,
        ),
        engine=types.SimpleNamespace(search=find),
        backend=types.SimpleNamespace(limits=lambda *sides: [max_length]),
        task=types.SimpleNamespace(decode=decode),
        has_trace=True,
        read_one=lambda text: (text, [4]),
    )


@pytest.fixture(scope="session")
def traced():
    """Returns the trace of a text for a table and settings."""

    def traced(text="text", table=TABLE, max_length=4, alpha=1.0, **settings):
        search = kt.BeamSearch(beam_size=2, alpha=alpha, **settings)
        translator = table_translator(table, search, max_length)
        return kt.trace(translator, text)

    return traced


@pytest.fixture(scope="session")
def found(traced):
    return traced("<b>&")
