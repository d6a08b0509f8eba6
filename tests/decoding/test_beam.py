"""Beam search, in graphs and with NumPy, against its definition."""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf
from search_tables import (
    BANNED,
    BOS,
    EOS,
    LONGEST,
    PAD,
    PENALTIES,
    UNK,
    VOCAB,
    WORDS,
    A,
    B,
    assert_same,
    hypotheses,
    penalty,
    random_table,
    repeats,
    score,
    table_of,
)

from keras_transformer.decoding import beam_search
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.text.ids import SpecialIds

SEARCHES = [dict(x, stop="exact") for x in PENALTIES] + [
    dict(PENALTIES[i], stop=stop)
    for i in (1, 3)
    for stop in ("finished", "heuristic")
]
PREFIXES = ([], [A], [B, A], [B, EOS], [UNK], [A, A, A])


def search_by_definition(
    table,
    beam_size,
    max_length,
    prefix=(),
    no_repeat_ngram=0,
    stop="exact",
    **penalties,
):
    """Beam search by its definition, without batches.

    Where `stop` is exact, it goes on to the maximum length.
    """
    live, finished = [((), 0.0)], []
    for length in range(1, max_length + 1):
        forced = [EOS] if length == max_length else prefix[length - 1 : length]
        candidates = [
            ((*ids, token), log_prob + table[ids][token])
            for ids, log_prob in live
            for token in forced or (EOS, *WORDS)
            if forced or not repeats((*ids, token), no_repeat_ngram)
        ]
        candidates.sort(key=lambda candidate: -candidate[1])
        finished += [
            (log_prob / penalty(length, **penalties), ids)
            for ids, log_prob in candidates[:beam_size]
            if ids[-1] == EOS
        ]
        finished.sort(key=lambda hypothesis: -hypothesis[0])
        live = [c for c in candidates if c[0][-1] != EOS][:beam_size]
        if beam_size == 1 and finished:
            break
        if stop == "exact" or len(finished) < beam_size:
            continue
        best = max((x for _, x in live), default=-np.inf)
        worst, _ = finished[beam_size - 1]
        if stop == "finished" or best / penalty(length, **penalties) <= worst:
            break
    return finished[:beam_size]


def check(find, search, tables, limits, prefixes=None, count=None):
    """Compares a search with the definition; returns what it finds."""
    result, sizes = find(search, tables, limits, prefixes=prefixes, count=count)
    options = dataclasses.asdict(search)
    del options["extra_length"], options["length_factor"]
    found = [hypotheses(result, row) for row in range(len(tables))]
    prefixes = prefixes or [[]] * len(tables)
    for ours, *row in zip(found, tables, limits, prefixes, strict=True):
        table, limit, prefix = row
        expected = search_by_definition(
            table, max_length=limit, prefix=prefix, **options
        )
        assert_same(ours, expected[:count])
    return found, sum(sizes)


# === Random tables ===


def test_a_wide_beam_finds_every_hypothesis(find):
    table = random_table(0)
    result, _ = find(BeamSearch(16), [table] * 2, [LONGEST, 2])
    for row, limit in enumerate((LONGEST, 2)):
        expected = [
            (score(table, (*words, EOS), 0.6), (*words, EOS))
            for length in range(limit)
            for words in itertools.product(WORDS, repeat=length)
        ]
        assert_same(hypotheses(result, row), sorted(expected, reverse=True))


@pytest.mark.parametrize("penalties", SEARCHES)
@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_narrow_beam_equals_the_definition(find, beam_size, penalties):
    tables = [random_table(seed) for seed in range(40)]
    limits = [1 + seed % LONGEST for seed in range(40)]
    check(find, BeamSearch(beam_size, **penalties), tables, limits)


@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_equal_scores_keep_their_order(find, beam_size):
    random = np.random.default_rng(beam_size)
    tables = [random_table(0) for _ in range(60)]
    for table in tables:
        for past in table:
            table[past] = random.choice([-2.0, -1.0, -0.5], VOCAB)
    limits = [1 + row % LONGEST for row in range(60)]
    found, _ = check(find, BeamSearch(beam_size, alpha=0.0), tables, limits)
    ties = sum(len(row) - len({x for x, _ in row}) for row in found)
    assert (ties > 0) == (beam_size > 1)


@pytest.mark.parametrize("n", [1, 2])
def test_n_best_are_certain_sooner(find, n):
    tables = [random_table(seed) for seed in range(40)]
    search = BeamSearch(4, alpha=0.0)
    steps = [
        check(find, search, tables, [LONGEST] * 40, count=count)[1]
        for count in (n, 4)
    ]
    assert steps[0] < steps[1]


@pytest.mark.parametrize("size", [0, 1, 2])
def test_prefixes_and_ngrams(find, size):
    """A prefix may contain banned ids, the end, and n-grams twice."""
    count = 8 * len(PREFIXES)
    tables = [random_table(seed) for seed in range(count)]
    limits = [1 + row // 2 % LONGEST for row in range(count)]
    search = BeamSearch(2, no_repeat_ngram=size)
    check(find, search, tables, limits, [*PREFIXES] * 8)


# === Tables by hand ===

# Each row: log-probabilities, beam size, alpha, maximum length, and what must
# be found.
BY_HAND = {
    "scores": (
        dict(a=-0.5, _=-2.0, a_=-1.5, ab=-1.75, ab_=-0.25),
        (3, 0.6, 4),
        {
            (A, EOS): -2.0 / (7 / 6) ** 0.6,
            (EOS,): -2.0,
            (A, B, EOS): -2.5 / (8 / 6) ** 0.6,
        },
    ),
    # Each is better than those that finished before it: "_", then "a_" above
    # it, then "ab_" above both, which removes "_" from a beam of two.
    "drop out": (
        dict(a=-0.25, _=-3, ab=-0.25, a_=-2, aba=-9, ab_=-0.5, aba_=-9),
        (2, 0.0, 4),
        {(A, B, EOS): -1.0, (A, EOS): -2.25},
    ),
    # "b" overtakes "a", so that the best hypothesis continues slot 2.
    "change slots": (
        dict(a=-0.5, b=-0.75, aa=-3, ab=-3.5, ba=-0.5, bb=-0.75)
        | dict(ba_=-0.5, bb_=-0.125),
        (2, 0.0, 3),
        {(B, B, EOS): -1.625, (B, A, EOS): -1.75},
    ),
    # Two finish in the same step with the same score: the first slot wins.
    "ties of slots": (
        dict(a=-1.0, b=-1.0, a_=-1.0, b_=-1.0),
        (2, 0.0, 2),
        {(A, EOS): -2.0, (B, EOS): -2.0},
    ),
}


@pytest.mark.parametrize("row", BY_HAND.values(), ids=BY_HAND)
def test_tables_by_hand(find, row):
    log_probs, (beam_size, alpha, limit), expected = row
    search = BeamSearch(beam_size, alpha=alpha)
    result, _ = find(search, [table_of(**log_probs)], [limit])
    expected = [(value, ids) for ids, value in expected.items()]
    assert_same(hypotheses(result, 0), expected)
    assert result.scores.dtype == np.float32
    assert result.ids.dtype == result.lengths.dtype == np.int32


def test_a_stopped_row_is_frozen_while_the_others_continue(find):
    # Greedy search ends `short` at once; "a_" would have a better score.
    short = table_of(_=-0.75, a=-0.8, a_=0.0)
    long = table_of(a=-0.1, _=-3, ab=-0.1, aba=-0.1, aba_=-0.1)
    middle = table_of(a=-0.1, _=-3, ab=-0.1, ab_=-0.1)
    search = BeamSearch(beam_size=1, alpha=1.0)
    result, steps = find(search, [short, long], [4, 4])
    assert_same(hypotheses(result, 0), [(-0.75, (EOS,))])
    # A sentence leaves the batch when half of the batch is done.
    assert steps == [2, 1, 1, 1]
    result, steps = find(search, [long, short, middle], [4, 4, 4])
    assert steps == [3, 3, 3, 1]
    assert hypotheses(result, 0)[0][1] == (A, B, A, EOS)
    assert_same(hypotheses(result, 1), [(-0.75, (EOS,))])
    assert hypotheses(result, 2)[0][1] == (A, B, EOS)


def test_a_hypothesis_without_a_chance_gets_none_in_a_batch(find):
    """A power of the length grows so fast that "ab_" would be the best."""
    table = table_of(_=-1.0, a=-0.4, a_=-2.0, ab=-4.6, ab_=0.0)
    long = table_of(a=-0.1, _=-3, ab=-0.1, aba=-0.1, aba_=-0.1)
    search = BeamSearch(2, alpha=2.0, length_penalty="power", stop="heuristic")
    result, _ = find(search, [table, long, long], [LONGEST] * 3)
    assert_same(hypotheses(result, 0), [(-0.6, (A, EOS)), (-1.0, (EOS,))])
    assert hypotheses(result, 1)[0][1] == (A, B, A, EOS)
    search = dataclasses.replace(search, stop="exact")
    result, _ = find(search, [table, long, long], [LONGEST] * 3)
    found = hypotheses(result, 0)
    assert_same(found, [(-5 / 9, (A, B, EOS)), (-0.6, (A, EOS))])


# After two steps "_" (-1) and "a_" (-1.5) are finished.
ENDS = dict(_=-1.0, a=-1.25, a_=-0.25)


@pytest.mark.parametrize(
    ("log_probs", "alpha", "steps"),
    [
        # "ab" at -2: without a length penalty it cannot reach -1.5 any more.
        (dict(ENDS, ab=-0.75, ab_=0.0), 0.0, 2),
        # With one, at the maximum length, (5 + 4) / 6, it is -1.33 against
        # -1.29 of "a_".
        (dict(ENDS, ab=-0.75, ab_=0.0), 1.0, 2),
        # "ab" at -1.75 can reach -1.17: one more step is needed, although
        # -1.75 / (8 / 6) = -1.3125 is worse than "a_" after all.
        (dict(ENDS, ab=-0.5, ab_=0.0), 1.0, 3),
        # "_" remains the best, but a second hypothesis is missing.
        (dict(_=-0.125, a=-5.0, ab=-5.0, ab_=-5.0), 0.0, 3),
    ],
)
def test_stops_when_no_live_hypothesis_can_win(find, log_probs, alpha, steps):
    result, sizes = find(
        BeamSearch(2, alpha=alpha), [table_of(**log_probs)], [4]
    )
    assert len(sizes) == steps
    second = (A, EOS) if "a_" in log_probs else (A, B, EOS)
    assert [ids for _, ids in hypotheses(result, 0)] == [(EOS,), second]


@pytest.mark.parametrize("banned", [(), (UNK,), BANNED, (*BANNED, B)])
def test_banned_ids(find, banned):
    tables = [random_table(seed) for seed in range(10)]
    for table in tables:
        for log_probs in table.values():
            log_probs[[UNK, BOS]] = -0.25, -0.125  # all are candidates
    result, _ = find(BeamSearch(4), tables, [3] * 10, banned=banned)
    found = [x for row in range(10) for x in hypotheses(result, row)]
    assert len(found) == (30 if B in banned else 40)
    used = {token for _, ids in found for token in ids}
    assert used & {*banned, UNK, BOS} == {UNK, BOS} - {*banned}


@pytest.mark.parametrize("start", [PAD, EOS])
def test_the_start_id_may_be_padding_or_the_end(find, start):
    # The tables do not depend on the start id.
    tables = [random_table(seed) for seed in range(20)]
    expected, _ = find(BeamSearch(3), tables, [LONGEST] * 20)
    found, _ = find(BeamSearch(3), tables, [LONGEST] * 20, bos=start)
    for row in range(20):
        assert_same(hypotheses(found, row), hypotheses(expected, row))


# === What only graphs are asked for ===


def test_a_limit_below_one_allows_only_the_end_token(search_in_tensors):
    table = random_table(0)
    result, _ = search_in_tensors(BeamSearch(2), [table, table], [0, -1])
    for row in range(2):
        end_alone = [(score(table, (EOS,), 0.6), (EOS,))]
        assert_same(hypotheses(result, row), end_alone)


def test_an_empty_batch():
    ids = SpecialIds(BOS, EOS, PAD, BANNED)
    no_lengths = tf.zeros([0], tf.int32)
    result = beam_search(None, (), no_lengths, BeamSearch(3), ids)
    assert result.ids.shape == (0, 3, 0)
    assert result.scores.shape == result.lengths.shape == (0, 3)
