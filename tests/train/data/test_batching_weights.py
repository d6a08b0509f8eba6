"""Weights of several corpora: how often a pass reads the pairs of each."""

import collections
import itertools

import ids
import numpy as np
import pytest
from ids import MAX_LENGTH

from keras_transformer.train.data import batching
from keras_transformer.train.data.batching import Batches

SIZES = {"batch_tokens": 200, "max_length": MAX_LENGTH}
COUNTS = [97, 40, 13]
# Each pair has its number on both sides; the lengths differ.
SHARDS = [
    ids.shard([ids.pair(n, (2 + n % 18, 2 + n * 5 % 18)) for n in numbers])
    for numbers in (range(15, 112), range(112, 152), range(152, 165))
]


@pytest.fixture(autouse=True)
def small_pools(monkeypatch):
    """Pools of 70 pairs, several in a pass."""
    monkeypatch.setattr(batching, "_POOL_IDS", 70 * MAX_LENGTH)


def make_order(weights=(), worker=(0, 1), **arguments):
    parts = list(zip(COUNTS, weights, strict=True)) if weights else ()
    return Batches(
        SHARDS,
        ids.tokenizer(),
        **{**SIZES, **arguments},
        seed=3,
        worker_share=worker,
        parts=parts,
    )


def read(order, number):
    """Returns the pairs of a pass, in its order, pool by pool."""
    first = number * order.num_pools
    pools = range(first, first + order.num_pools)
    return [order._draw(pool).tolist() for pool in pools]


def pairs_of(order, number):
    return [pair for pool in read(order, number) for pair in pool]


@pytest.mark.parametrize("worker", [(0, 1), (1, 3)])
def test_weights_of_one_change_nothing(worker):
    weighted, plain = make_order((1, 1.0, 1), worker), make_order((), worker)
    for number in range(3):
        assert read(weighted, number) == read(plain, number)
    assert (
        sorted(pairs_of(plain, 1)) == list(range(150))[worker[0] :: worker[1]]
    )


def test_a_pass_reads_each_pair_as_often_as_its_weight_says():
    order = make_order((2, 1, 3))
    for number in range(2):
        times = collections.Counter(pairs_of(order, number))
        expected = np.repeat([2, 1, 3], COUNTS)
        assert times == dict(enumerate(expected))
    assert pairs_of(order, 0) != pairs_of(order, 1)


def test_passes_take_turns_through_a_part_that_they_do_not_finish():
    order = make_order((1, 0.25, 1.5))
    times = collections.Counter()
    for number in range(8):
        drawn = pairs_of(order, number)
        # 97, a quarter of 40, one and a half of 13.
        assert len(drawn) == 97 + 10 + 20
        assert sum(97 <= x < 137 for x in drawn) == 10
        times.update(drawn)
        if number in (3, 7):
            second = [times[x] for x in range(97, 137)]
            assert second == [(number + 1) / 4] * 40
    assert {times[x] for x in range(97)} == {8}
    assert {times[x] for x in range(137, 150)} <= {12, 13}
    assert make_order((1, 1, 0.001)).num_pools == 2  # it is read, once


def test_workers_share_what_a_pass_reads():
    alone = sorted(pairs_of(make_order((2, 0.5, 1)), 1))
    shares = [pairs_of(make_order((2, 0.5, 1), (i, 3)), 1) for i in range(3)]
    assert sorted(itertools.chain(*shares)) == alone
    assert {len(share) for share in shares} == {75, 76}


def test_an_interrupted_order_resumes_exactly():
    """From batch to batch, over the end of two passes."""
    order = make_order((2, 0.25, 3))
    size = order.count_batches_of_pass()
    whole = [order[i][1].tolist() for i in range(2 * size + 8)]
    for start in (1, size // 2, size, size + 7):
        resumed = make_order((2, 0.25, 3), start=start)
        for i in range(size):
            assert resumed[i][1].tolist() == whole[start + i]
