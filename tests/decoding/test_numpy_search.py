"""The beam search in NumPy against its definition, and against the graph's."""

import numpy as np
import pytest
from search_tables import (
    BOS,
    EOS,
    LONGEST,
    PAD,
    PENALTIES,
    SEARCHES,
    UNK,
    VOCAB,
    A,
    B,
    assert_same,
    hypotheses,
    random_table,
    search_by_definition,
    search_tables,
)

from keras_transformer.decoding.numpy_search import Predictions, beam_search
from keras_transformer.decoding.search_arrays import SpecialIds
from keras_transformer.decoding.settings import BeamSearch

BANNED = (PAD, UNK, BOS)
PREFIXES = ([], [A], [B, A], [B, EOS], [UNK], [A, A, A])


class TableDecoding:
    """Decodes with one table per sentence in place of a model."""

    def __init__(self, tables, num_candidates):
        self.tables = tables
        self.num_candidates = num_candidates
        self.pasts = [[()] for _ in tables]  # the ids of each hypothesis
        self.batch_sizes = []  # of each step

    def step(self, ids, parents, forced_ids):
        self.batch_sizes.append(len(ids))
        if len(self.batch_sizes) == 1:
            self.pasts = [[()] * ids.shape[1] for _ in self.tables]
        else:
            self.pasts = [
                [
                    (*past[parent], token)
                    for parent, token in zip(*row, strict=True)
                ]
                for past, *row in zip(
                    self.pasts, parents.tolist(), ids.tolist(), strict=True
                )
            ]
        log_probs = np.array(
            [
                [table[past] for past in pasts]
                for table, pasts in zip(self.tables, self.pasts, strict=True)
            ],
            np.float32,
        )
        tokens = np.argsort(-log_probs, axis=-1, kind="stable")
        tokens = tokens[..., : self.num_candidates].astype(np.int32)
        forced = None
        if forced_ids is not None:
            forced = np.take_along_axis(log_probs, forced_ids[..., None], -1)
        best = np.take_along_axis(log_probs, tokens, -1)
        return Predictions(best, tokens, forced)

    def keep(self, rows):
        self.tables = [self.tables[row] for row in rows]
        self.pasts = [self.pasts[row] for row in rows]


def search_arrays(
    search,
    tables,
    max_lengths,
    banned=BANNED,
    prefixes=None,
    bos=BOS,
    count=None,
):
    """Searches with NumPy as `search_tables` does in a graph.

    Returns:
        `[(score, ids)]` of each row, and the number of sentences of each step.
    """
    # As many candidates as an exported model has.
    decoding = TableDecoding(tables, 2 * search.beam_size + len(banned))
    result = beam_search(
        decoding,
        np.array(max_lengths),
        search,
        count or search.beam_size,
        SpecialIds(bos, EOS, PAD, banned),
        prefixes or [[]] * len(tables),
    )
    assert len(result.ids) == len(tables)
    rows = [hypotheses(result, row) for row in range(len(tables))]
    return rows, decoding.batch_sizes


def padded(prefixes):
    width = max(map(len, prefixes))
    return np.array([[*p, *[PAD] * (width - len(p))] for p in prefixes])


def assert_as_in_a_graph(search, tables, max_lengths, prefixes=None, **options):
    found, sizes = search_arrays(
        search, tables, max_lengths, prefixes=prefixes, **options
    )
    if prefixes:
        options["prefix"] = padded(prefixes).astype("int32")
    result, graph_sizes = search_tables(search, tables, max_lengths, **options)
    for row, ours in enumerate(found):
        assert_same(ours, hypotheses(result, row))
    assert sizes == graph_sizes
    return found


@pytest.mark.parametrize("penalties", SEARCHES)
@pytest.mark.parametrize("beam_size", [1, 2, 3, 4])
def test_narrow_beam_equals_definition_and_graph(beam_size, penalties):
    tables = [random_table(seed) for seed in range(40)]
    limits = [1 + seed % LONGEST for seed in range(40)]
    search = BeamSearch(beam_size, **penalties)
    found = assert_as_in_a_graph(search, tables, limits)
    for ours, table, limit in zip(found, tables, limits, strict=True):
        expected = search_by_definition(table, beam_size, limit, **penalties)
        assert_same(ours, expected)


@pytest.mark.parametrize("beam_size", [1, 2, 3, 4, 7])
def test_equal_probabilities_are_chosen_as_in_a_graph(beam_size):
    random = np.random.default_rng(beam_size)
    values = [-2.0, -1.0, -0.5, -np.inf]  # exact sums
    tables = [random_table(0) for _ in range(60)]
    for table in tables:
        for past in table:
            table[past] = random.choice(values, VOCAB, p=[0.4, 0.3, 0.2, 0.1])
            table[past][EOS] = random.choice([-1.0, -4.0])  # never impossible
    limits = [1 + row % LONGEST for row in range(60)]
    ties = 0
    for alpha in (0.0, 1.0):
        search = BeamSearch(beam_size, alpha)
        for row in assert_as_in_a_graph(search, tables, limits):
            ties += len(row) - len({score for score, _ in row})
    assert (ties > 0) == (beam_size > 1)


@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_prefixes(beam_size):
    count = 8 * len(PREFIXES)
    tables = [random_table(seed) for seed in range(count)]
    limits = [1 + row // 2 % LONGEST for row in range(count)]
    prefixes = [*PREFIXES] * 8
    found = assert_as_in_a_graph(
        BeamSearch(beam_size), tables, limits, prefixes
    )
    for ours, prefix, limit in zip(found, prefixes, limits, strict=True):
        for _, ids in ours:
            beginning = (*prefix[: limit - 1], *[EOS] * (limit <= len(prefix)))
            assert ids[: len(beginning)] == beginning


@pytest.mark.parametrize("banned", [(), (UNK,), BANNED, (*BANNED, B)])
def test_banned_ids(banned):
    tables = [random_table(seed) for seed in range(10)]
    for table in tables:
        for log_probs in table.values():
            # Likely: the candidates have all of them.
            log_probs[[UNK, BOS]] = -0.25, -0.125
    search = BeamSearch(beam_size=4)
    found = assert_as_in_a_graph(search, tables, [3] * 10, banned=banned)
    used = {token for row in found for _, ids in row for token in ids}
    assert used & {*banned, UNK, BOS} == {UNK, BOS} - {*banned}


@pytest.mark.parametrize("beam_size", [1, 3])
def test_row_does_not_depend_on_its_batch(beam_size):
    tables = [random_table(seed) for seed in range(8)]
    limits = [4, 1, 3, 4, 2, 4, 4, 3]
    prefixes = [[], [A], [], [B, A], [], [], [A, B, A], []]
    search = BeamSearch(beam_size, alpha=1.0)
    together, sizes = search_arrays(search, tables, limits, prefixes=prefixes)
    assert sizes[-1] < 8
    for row in range(8):
        alone, _ = search_arrays(
            search, [tables[row]], [limits[row]], prefixes=[prefixes[row]]
        )
        assert_same(alone[0], together[row])


@pytest.mark.parametrize("penalties", PENALTIES)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_n_best_are_certain_when_they_are_in_a_graph(n, penalties):
    tables = [random_table(seed) for seed in range(40)]
    search = BeamSearch(4, **penalties)
    assert_as_in_a_graph(search, tables, [LONGEST] * 40, count=n)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_ngram_is_repeated(size):
    tables = [random_table(seed) for seed in range(len(PREFIXES))]
    search = BeamSearch(2, alpha=0.6, no_repeat_ngram=size)
    # As many candidates as in a graph: the whole vocabulary.
    banned = (PAD, UNK, BOS)
    for prefixes in (None, PREFIXES):
        found = assert_as_in_a_graph(
            search, tables, [LONGEST] * len(tables), prefixes, banned=banned
        )
        assert all(found)
