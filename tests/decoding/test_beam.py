"""Beam search against its definition and against all possible hypotheses."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from search_tables import (
    BOS,
    EOS,
    LONGEST,
    PAD,
    PENALTIES,
    SEARCHES,
    UNK,
    A,
    B,
    all_hypotheses,
    assert_same,
    hypotheses,
    random_table,
    score,
    search_by_definition,
    search_tables,
    table_of,
)

from keras_transformer.decoding import beam_search
from keras_transformer.decoding.settings import BeamSearch

HYPOTHESES = 1 + 2 + 4 + 8  # all that have at most LONGEST tokens


@pytest.mark.parametrize("penalties", SEARCHES)
def test_wide_beam_finds_every_hypothesis(penalties):
    tables = [random_table(seed) for seed in range(3)]
    search = BeamSearch(beam_size=HYPOTHESES + 1, **penalties)
    result, _ = search_tables(search, tables, [LONGEST, LONGEST, 2])
    for row, max_length in enumerate((LONGEST, LONGEST, 2)):
        expected = all_hypotheses(tables[row], max_length, **penalties)
        assert_same(hypotheses(result, row), expected)
    assert len(hypotheses(result, 0)) == HYPOTHESES
    assert len(hypotheses(result, 2)) == 3


@pytest.mark.parametrize("penalties", SEARCHES)
@pytest.mark.parametrize("beam_size", [1, 2, 3, 4])
def test_narrow_beam_equals_the_definition(beam_size, penalties):
    tables = [random_table(seed) for seed in range(40)]
    max_lengths = [1 + seed % LONGEST for seed in range(40)]
    search = BeamSearch(beam_size, **penalties)
    result, _ = search_tables(search, tables, max_lengths)
    for row, (table, limit) in enumerate(zip(tables, max_lengths, strict=True)):
        expected = search_by_definition(table, beam_size, limit, **penalties)
        assert_same(hypotheses(result, row), expected)


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("size", [1, 2])
def test_no_ngram_is_repeated(size, graph):
    values = dict(no_repeat_ngram=size, alpha=0.6)
    tables = [random_table(seed) for seed in range(40)]
    limits = [LONGEST] * 40
    found, _ = search_tables(BeamSearch(4, **values), tables, limits, graph)
    other, _ = search_tables(BeamSearch(4, alpha=0.6), tables, limits)
    changed = 0
    for row, table in enumerate(tables):
        expected = search_by_definition(table, 4, LONGEST, **values)
        assert_same(hypotheses(found, row), expected)
        changed += hypotheses(found, row) != hypotheses(other, row)
    assert changed


def test_a_prefix_may_repeat_ngrams():
    table, prefix = random_table(1), (A, A)
    search = BeamSearch(8, alpha=0.0, no_repeat_ngram=1)
    result, _ = search_tables(search, [table], [LONGEST], prefix=[prefix])
    expected = [(*prefix, EOS), (*prefix, B, EOS)]
    expected = [(score(table, ids, 0.0), ids) for ids in expected]
    assert_same(hypotheses(result, 0), sorted(expected, reverse=True))


@pytest.mark.parametrize("beam_size", [1, 3])
def test_row_does_not_depend_on_its_batch(beam_size):
    tables = [random_table(seed) for seed in range(8)]
    max_lengths = [4, 1, 3, 4, 2, 4, 4, 3]
    search = BeamSearch(beam_size, alpha=1.0)
    together, _ = search_tables(search, tables, max_lengths)
    for row in range(8):
        alone, _ = search_tables(search, [tables[row]], [max_lengths[row]])
        assert_same(hypotheses(alone, 0), hypotheses(together, row))


def test_stopped_row_is_frozen_while_the_others_continue():
    # Greedy search ends `short` at once; "a_" would have a better score.
    short = table_of(_=-0.75, a=-0.8, a_=0.0)
    long = table_of(a=-0.1, _=-3, ab=-0.1, aba=-0.1, aba_=-0.1)
    assert score(short, (A, EOS), 1.0) > score(short, (EOS,), 1.0)
    search = BeamSearch(beam_size=1, alpha=1.0)
    result, steps = search_tables(search, [short, long], [4, 4])
    assert_same(hypotheses(result, 0), [(-0.75, (EOS,))])
    assert hypotheses(result, 1)[0][1] == (A, B, A, EOS)
    # A sentence leaves the batch when half of the batch is done.
    assert steps == [2, 1, 1, 1]
    result, steps = search_tables(search, [long, short, long], [4, 4, 4])
    assert steps == [3, 3, 3, 3]
    assert_same(hypotheses(result, 1), [(-0.75, (EOS,))])
    middle = table_of(a=-0.1, _=-3, ab=-0.1, ab_=-0.1)
    result, steps = search_tables(search, [long, short, middle], [4, 4, 4])
    assert steps == [3, 3, 3, 1]
    assert hypotheses(result, 0)[0][1] == (A, B, A, EOS)
    assert hypotheses(result, 2)[0][1] == (A, B, EOS)


def test_what_had_no_chance_gets_none_in_a_batch():
    """A power of the length grows so fast that "ab_" would be the best."""
    table = table_of(_=-1.0, a=-0.4, a_=-2.0, ab=-4.6, ab_=0.0)
    long = table_of(a=-0.1, _=-3, ab=-0.1, aba=-0.1, aba_=-0.1)
    search = BeamSearch(2, alpha=2.0, length_penalty="power", stop="heuristic")
    result, _ = search_tables(search, [table, long, long], [LONGEST] * 3)
    assert_same(hypotheses(result, 0), [(-0.6, (A, EOS)), (-1.0, (EOS,))])
    assert hypotheses(result, 1)[0][1] == (A, B, A, EOS)
    search = dataclasses.replace(search, stop="exact")
    result, _ = search_tables(search, [table, long, long], [LONGEST] * 3)
    found = hypotheses(result, 0)
    assert_same(found, [(-5 / 9, (A, B, EOS)), (-0.6, (A, EOS))])


@pytest.mark.parametrize("beam_size", [1, 2])
def test_eager_equals_graph(beam_size):
    tables = [random_table(seed) for seed in range(4)]
    search = BeamSearch(beam_size)
    eager, _ = search_tables(search, tables, [4, 3, 4, 2])
    graph, _ = search_tables(search, tables, [4, 3, 4, 2], graph=True)
    np.testing.assert_array_equal(eager.ids, graph.ids)
    np.testing.assert_array_equal(eager.lengths, graph.lengths)
    np.testing.assert_allclose(eager.scores, graph.scores, rtol=1e-5)


def test_scores_are_log_probabilities_over_the_length_penalty():
    table = table_of(a=-0.5, _=-2.0, a_=-1.5, ab=-1.75, ab_=-0.25)
    result, _ = search_tables(BeamSearch(3, alpha=0.6), [table], [4])
    assert_same(
        hypotheses(result, 0),
        [
            (-2.0 / (7 / 6) ** 0.6, (A, EOS)),
            (-2.0, (EOS,)),
            (-2.5 / (8 / 6) ** 0.6, (A, B, EOS)),
        ],
    )
    assert result.scores.dtype == np.float32
    assert result.ids.dtype == result.lengths.dtype == np.int32


def test_alpha_decides_between_short_and_long():
    # log P: "_" -2, "ab_" -2.25. Over (5 + n) / 6: -2 and -1.69.
    table = table_of(_=-2.0, a=-0.5, ab=-0.75, ab_=-1.0)
    short, long = (EOS,), (A, B, EOS)
    result, _ = search_tables(BeamSearch(2, alpha=0.0), [table], [4])
    assert_same(hypotheses(result, 0), [(-2.0, short), (-2.25, long)])
    result, _ = search_tables(BeamSearch(2, alpha=1.0), [table], [4])
    assert_same(hypotheses(result, 0), [(-2.25 * 6 / 8, long), (-2.0, short)])


def test_finished_hypotheses_move_and_drop_out():
    # Each is better than those that finished before it: "_", then "a_" above
    # it, then "ab_" above both, which removes "_" from a beam of two.
    table = table_of(
        a=-0.25, _=-3.0, ab=-0.25, a_=-2.0, aba=-9.0, ab_=-0.5, aba_=-9.0
    )
    result, _ = search_tables(BeamSearch(2, alpha=0.0), [table], [4])
    assert hypotheses(result, 0) == [(-1.0, (A, B, EOS)), (-2.25, (A, EOS))]
    # Also if the last to finish is the worst.
    table = table_of(_=-1.0, a=-1.25, a_=-0.5, ab=-0.5, ab_=-4.0)
    result, _ = search_tables(BeamSearch(3, alpha=0.0), [table], [3])
    assert hypotheses(result, 0) == [
        (-1.0, (EOS,)),
        (-1.75, (A, EOS)),
        (-5.75, (A, B, EOS)),
    ]


def test_live_hypotheses_change_slots():
    # "b" overtakes "a", so that the best hypothesis continues slot 2.
    table = table_of(
        a=-0.5, b=-0.75, aa=-3.0, ab=-3.5, ba=-0.5, bb=-0.75,
        ba_=-0.5, bb_=-0.125,
    )  # fmt: skip
    result, _ = search_tables(BeamSearch(2, alpha=0.0), [table], [3])
    assert hypotheses(result, 0) == [
        (-1.625, (B, B, EOS)),
        (-1.75, (B, A, EOS)),
    ]


def test_an_end_below_the_best_candidates_does_not_finish():
    # "_" is the third of the first candidates, behind a beam of two.
    table = table_of(a=-1.0, b=-1.5, _=-2.0, a_=-4.0, b_=-4.0)
    two, _ = search_tables(BeamSearch(2, alpha=0.0), [table], [2])
    assert hypotheses(two, 0) == [(-5.0, (A, EOS)), (-5.5, (B, EOS))]
    three, _ = search_tables(BeamSearch(3, alpha=0.0), [table], [2])
    assert hypotheses(three, 0)[0] == (-2.0, (EOS,))


def test_ties_keep_the_smaller_id_and_the_earlier():
    equal = {(): [EOS, A, B], (A,): [EOS, A, B], (B,): [EOS, A, B]}
    table = table_of()
    for prefix, tokens in equal.items():
        table[prefix][tokens] = -1.0
    for _ in range(3):
        result, _ = search_tables(BeamSearch(2, alpha=0.0), [table] * 2, [2, 2])
        for row in range(2):
            expected = [(-1.0, (EOS,)), (-2.0, (A, EOS))]
            assert hypotheses(result, row) == expected
    # Two finish in the same step with the same score: the first slot wins.
    both = table_of(a=-1.0, b=-1.0, a_=-1.0, b_=-1.0)
    result, _ = search_tables(BeamSearch(2, alpha=0.0), [both], [2])
    assert hypotheses(result, 0) == [(-2.0, (A, EOS)), (-2.0, (B, EOS))]
    # One that finishes later with the same score does not replace another.
    later = table_of(_=-1.0, a=-0.5, a_=-0.5)
    result, _ = search_tables(BeamSearch(2, alpha=0.0), [later], [2])
    assert hypotheses(result, 0) == [(-1.0, (EOS,)), (-1.0, (A, EOS))]


def test_end_token_may_be_the_first():
    table = table_of(_=-0.125, a=-3.0, a_=-1.0)
    search = BeamSearch(1, alpha=0, extra_length=0)  # zeros are valid
    result, steps = search_tables(search, [table], [4])
    assert hypotheses(result, 0) == [(-0.125, (EOS,))]
    assert len(steps) == 1


@pytest.mark.parametrize("beam_size", [1, 2])
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_hypothesis_at_the_limit_pays_for_its_end_token(limit, beam_size):
    table = random_table(0)
    for distribution in table.values():
        distribution[EOS] = -20.0
    result, steps = search_tables(BeamSearch(beam_size), [table], [limit])
    assert len(steps) == limit
    best, *_ = found = hypotheses(result, 0)
    assert len(best[1]) == limit and best[1][-1] == EOS
    assert EOS not in best[1][:-1]
    np.testing.assert_allclose(best[0], score(table, best[1], 0.6), rtol=1e-5)
    assert len(found) == min(beam_size, 2 ** (limit - 1))


def test_limit_below_one_allows_only_the_end_token():
    table = random_table(0)
    result, _ = search_tables(BeamSearch(2), [table, table], [0, -1])
    end_alone = [(score(table, (EOS,), 0.6), (EOS,))]
    assert_same(hypotheses(result, 0), end_alone)
    assert_same(hypotheses(result, 1), end_alone)


def test_stops_when_no_live_hypothesis_can_win():
    # After two steps "_" (-1) and "a_" (-1.5) are finished.
    ends = dict(_=-1.0, a=-1.25, a_=-0.25)
    # "ab" at -2: without a length penalty it cannot reach -1.5 any more.
    table = table_of(**ends, ab=-0.75, ab_=-0.0)
    result, steps = search_tables(BeamSearch(2, alpha=0.0), [table], [4])
    assert len(steps) == result.ids.shape[2] == 2
    assert hypotheses(result, 0) == [(-1.0, (EOS,)), (-1.5, (A, EOS))]
    # With one, at the maximum length, (5 + 4) / 6, it is -1.33 against -1.29
    # of "a_". "ab" at -1.75 can reach -1.17: one more step is needed.
    _, steps = search_tables(BeamSearch(2, alpha=1.0), [table], [4])
    assert len(steps) == 2
    table = table_of(**ends, ab=-0.5, ab_=0.0)
    result, steps = search_tables(BeamSearch(2, alpha=1.0), [table], [4])
    assert len(steps) == 3
    # -1.75 / (8 / 6) = -1.3125 is worse than "a_" after all.
    assert [ids for _, ids in hypotheses(result, 0)] == [(EOS,), (A, EOS)]


@pytest.mark.parametrize("penalties", PENALTIES)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_n_best_are_certain_sooner(n, penalties):
    tables = [random_table(seed) for seed in range(40)]
    limits = [LONGEST] * 40
    search, sentences = BeamSearch(4, **penalties), []
    for count in (n, 4):
        result, steps = search_tables(search, tables, limits, count=count)
        found = [hypotheses(result, row) for row in range(40)]
        sentences.append(sum(steps))
        for ours, table in zip(found, tables, strict=True):
            expected = search_by_definition(table, 4, LONGEST, **penalties)
            assert_same(ours, expected[:count])
    if n < 3 and penalties["alpha"] == 0:
        assert sentences[0] < sentences[1]


def test_does_not_stop_before_the_beam_is_full():
    # "_" remains the best, but a second hypothesis is missing.
    table = table_of(_=-0.125, a=-5.0, ab=-5.0, ab_=-5.0)
    result, steps = search_tables(BeamSearch(2, alpha=0.0), [table], [4])
    assert len(steps) == 3
    assert hypotheses(result, 0) == [(-0.125, (EOS,)), (-15.0, (A, B, EOS))]


def test_banned_ids_are_never_chosen():
    table = random_table(0)
    for distribution in table.values():
        distribution[[PAD, UNK, BOS]] = 0.0  # the highest log-probability
    result, _ = search_tables(BeamSearch(4), [table], [LONGEST])
    found = hypotheses(result, 0)
    assert len(found) == 4
    for _, ids in found:
        assert set(ids) <= {EOS, A, B}


@pytest.mark.parametrize("start", [PAD, EOS])
def test_the_start_id_may_be_padding_or_the_end(start):
    # The tables do not depend on the start id.
    tables = [random_table(seed) for seed in range(20)]
    limits = [LONGEST] * 20
    expected, _ = search_tables(BeamSearch(3), tables, limits)
    found, _ = search_tables(BeamSearch(3), tables, limits, bos=start)
    for row in range(20):
        assert_same(hypotheses(found, row), hypotheses(expected, row))


def test_only_banned_ids_are_banned():
    table = table_of(a=-1.0, a_=-1.0)
    table[()][[UNK, BOS]] = -0.25, -0.5
    table[UNK,][EOS] = table[BOS,][EOS] = 0.0
    for banned, expected in (
        ((), [(UNK, EOS), (BOS, EOS)]),
        ((UNK,), [(BOS, EOS), (A, EOS)]),
    ):
        search = BeamSearch(2, alpha=0.0)
        result, _ = search_tables(search, [table], [2], banned=banned)
        assert [ids for _, ids in hypotheses(result, 0)] == expected


def test_empty_batch():
    no_step, no_cache, no_lengths = None, (), tf.zeros([0], tf.int32)
    result = beam_search(
        no_step,
        no_cache,
        no_lengths,
        BeamSearch(beam_size=3),
        bos_id=BOS,
        eos_id=EOS,
        pad_id=PAD,
    )
    assert result.ids.shape == (0, 3, 0)
    assert result.scores.shape == result.lengths.shape == (0, 3)
