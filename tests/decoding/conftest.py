"""Searches on tables of probabilities: in TensorFlow and with NumPy."""

import numpy as np
import pytest
import tensorflow as tf
from search_tables import (
    BANNED,
    BOS,
    EOS,
    PAD,
    TableDecoding,
    tables_as_step,
)

from keras_transformer import decoding
from keras_transformer.decoding import numpy_search
from keras_transformer.text.ids import SpecialIds, padded


def search_with_numpy(
    search,
    tables,
    max_lengths,
    *,
    bos=BOS,
    banned=BANNED,
    prefixes=None,
    count=None,
):
    """Searches a batch with one table per row.

    Returns:
        `SearchResult` of arrays, and the number of sentences of each step.
    """
    # As many candidates as an exported model has.
    table_decoding = TableDecoding(tables, 2 * search.beam_size + len(banned))
    result = numpy_search.beam_search(
        table_decoding,
        np.array(max_lengths),
        search,
        SpecialIds(bos, EOS, PAD, banned),
        count or search.beam_size,
        padded(prefixes or [[]] * len(tables), PAD),
    )
    return result, table_decoding.batch_sizes


def search_in_tensors(
    search,
    tables,
    max_lengths,
    *,
    bos=BOS,
    banned=BANNED,
    prefixes=None,
    count=None,
):
    """Does what `search_with_numpy` does."""
    step, cache, calls = tables_as_step(tables, search.beam_size)
    ids = SpecialIds(bos, EOS, PAD, banned)
    prefix = tf.constant(padded(prefixes, PAD)) if prefixes else None
    limits = tf.constant(max_lengths)
    result = decoding.beam_search(
        step, cache, limits, search, ids, count, prefix
    )
    return tf.nest.map_structure(lambda x: x.numpy(), result), calls


@pytest.fixture(name="search_in_tensors")
def _search_in_tensors():
    return search_in_tensors


@pytest.fixture(params=[search_in_tensors, search_with_numpy])
def find(request):
    """Each implementation of the search."""
    return request.param
