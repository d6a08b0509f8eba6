"""Searches on tables of probabilities: in TensorFlow and with NumPy."""

import numpy as np
import pytest
import tensorflow as tf
from search_tables import (
    BANNED,
    BOS,
    EOS,
    PAD,
    VOCAB,
    as_array,
    tables_as_step,
)

from keras_transformer import decoding
from keras_transformer.decoding import numpy_search
from keras_transformer.text.ids import SpecialIds, padded


class TableDecoding:
    """Decodes with one table per row, as `numpy_search.beam_search` asks."""

    finished_share = 0.5

    def __init__(self, tables, num_candidates):
        self.log_probs = as_array(tables)
        self.num_candidates = num_candidates
        self.nodes = None  # [B, K] the prefix of each hypothesis
        self.batch_sizes = []  # of each step

    def step(self, ids, parents, forced_ids):
        rows = np.arange(len(ids))[:, None]
        if self.batch_sizes:
            self.nodes = self.nodes[rows, parents] * VOCAB + ids + 1
        else:
            self.nodes = np.zeros_like(ids)
        self.batch_sizes.append(len(ids))
        log_probs = self.log_probs[rows, self.nodes]
        tokens = np.argsort(-log_probs, axis=-1, kind="stable")
        tokens = tokens[..., : self.num_candidates].astype(np.int32)
        best, forced = (
            np.take_along_axis(log_probs, x, axis=-1)
            for x in (tokens, forced_ids[..., None])
        )
        return numpy_search.Predictions(best, tokens, forced)

    def keep(self, rows):
        self.log_probs = self.log_probs[rows]
        self.nodes = self.nodes[rows]


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
