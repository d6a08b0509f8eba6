"""Batches of a prepared corpus: contract, global order, seeking."""

import subprocess
import sys

import ids
import numpy as np
import pytest
import tensorflow as tf
from ids import MAX_LENGTH

from keras_transformer.support.errors import InputError
from keras_transformer.train.data import pipeline
from keras_transformer.train.data.batching import bucket_lengths
from keras_transformer.train.data.prepared_stream import PreparedStream

# Sorted by length, with the same number of pairs of each length.
PAIRS = [
    ids.pair(n, (2 + n * 17 // 300, 2 + n * 17 // 300 - n % 2))
    for n in range(15, 300)
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ids") / "prepared"
    return ids.write(folder, PAIRS, shard_pairs=100)


@pytest.fixture
def small_pools(monkeypatch):
    """Pools of 70 pairs, five in a pass."""
    monkeypatch.setattr(pipeline, "_POOL_IDS", 70 * MAX_LENGTH)


def make_stream(prepared, seed=1, **arguments):
    return PreparedStream(prepared, batch_tokens=200, seed=seed, **arguments)


def read_pass(stream, number=0):
    """Returns the batches of a pass as (source, target, labels)."""
    batches = []
    for inputs, labels in stream.dataset:
        if stream.position(len(batches) + 1)[0] != number:
            return batches
        rows = (inputs["source"], inputs["target"], labels)
        batches.append([row.numpy().tolist() for row in rows])


def take(stream, count):
    return [labels.numpy().tolist() for _, labels in stream.dataset.take(count)]


def numbers(batches):
    """Returns the numbers of the pairs, in the order of the batches."""
    return [ids.number_of(row) for source, _, _ in batches for row in source]


def lengths(batches):
    return [len(labels[0]) for _, _, labels in batches]


def test_layout(prepared):
    expected = {
        ids.number_of(source): (source, target) for source, target in PAIRS
    }
    batches = read_pass(make_stream(prepared))
    for batch in batches:
        for source, target, labels in zip(*batch, strict=True):
            s, t = expected.pop(ids.number_of(source))
            for row, expected_ids in (
                (source, [*s, 3]),
                (target, [2, *t]),
                (labels, [*t, 3]),
            ):
                assert row == pad(expected_ids)[: len(source)]
        size, length = len(batch[0]), len(source)
        assert 2 * size * length <= 200
        assert length in bucket_lengths(MAX_LENGTH)
    assert not expected


def test_batches_are_those_of_a_stream_of_texts(prepared, monkeypatch):
    """With one pool: the same element type, numbers of pairs and lengths."""
    rows = tf.data.Dataset.from_generator(
        lambda: (
            (max(len(s), len(t)) + 1, pad([*s, 3]), pad([*t, 3]))
            for s, t in PAIRS
        ),
        output_signature=(
            tf.TensorSpec([], tf.int64),
            tf.TensorSpec([MAX_LENGTH], tf.int32),
            tf.TensorSpec([MAX_LENGTH], tf.int32),
        ),
    )
    monkeypatch.setattr(pipeline, "_rows", lambda *_: rows)
    texts = pipeline.TrainingStream(
        rows, ids.tokenizer(), batch_tokens=200, max_length=MAX_LENGTH, seed=1
    )
    stream = make_stream(prepared)
    assert stream.dataset.element_spec == texts.dataset.element_spec
    found, expected = read_pass(stream), read_pass(texts)
    shapes = [
        sorted((len(labels), len(labels[0])) for _, _, labels in batches)
        for batches in (found, expected)
    ]
    assert shapes[0] == shapes[1]
    assert sorted(numbers(found)) == sorted(numbers(expected))


def pad(row):
    return (row + [0] * MAX_LENGTH)[:MAX_LENGTH]


def test_every_pass_has_every_pair_once(prepared, small_pools):
    stream = make_stream(prepared)
    first = numbers(read_pass(stream))
    second = numbers(read_pass(make_stream(prepared, start=(1, 0)), 1))
    assert sorted(first) == sorted(second) == list(range(15, 300))
    assert first != second


def test_the_seed_determines_the_batches(prepared, small_pools):
    expected = read_pass(make_stream(prepared))
    tf.random.set_seed(1)
    assert read_pass(make_stream(prepared)) == expected
    assert read_pass(make_stream(prepared, seed=2)) != expected


def test_the_order_of_a_seed_is_the_same_everywhere(prepared):
    """Another order would change the rest of a run that is resumed."""
    found = lengths(read_pass(make_stream(prepared)))
    assert found[:12] == [17, 17, 17, 17, 10, 14, 12, 14, 8, 8, 10, 14]


def test_the_order_is_global(tmp_path):
    """Each pool is a sample of the whole file, and no pair follows another."""
    pairs = [ids.pair(n) for n in range(60_000)]
    stream = make_stream(ids.write(tmp_path / "prepared", pairs))
    stream._pool_size = 6_000
    seed = tf.constant(5, tf.int64)
    pools = [stream._draw(seed, tf.constant(n, tf.int64)) for n in range(10)]
    places = np.concatenate(pools) / 60_000
    assert np.unique(places).size == 60_000
    # Of independent numbers, the means have a deviation of 0.0037 and the
    # correlations one of 0.0041.
    for pool in np.split(places, 10):
        assert pool.mean() == pytest.approx(0.5, abs=0.015)
        assert pool.std() == pytest.approx(12**-0.5, abs=0.01)
    for lag in (1, 2, 3, 1_024):
        correlation = np.corrcoef(places[lag:], places[:-lag])[0, 1]
        assert abs(correlation) < 0.016


def test_pairs_of_a_batch_are_not_neighbours(tmp_path):
    """Nor sorted: all pairs have one length, so that batches are arbitrary."""
    prepared = ids.write(
        tmp_path / "prepared", [ids.pair(n) for n in range(900)]
    )
    ((batch, *_), *_) = read_pass(make_stream(prepared))
    found = [ids.number_of(row) for row in batch]
    assert found != sorted(found)
    assert max(found) - min(found) > 300


# === Positions ===


def test_a_stream_resumes_at_its_position(prepared, small_pools):
    """At the begin and the end of pools and passes, and within them."""
    stream = make_stream(prepared, seed=0)
    size = len(read_pass(stream))
    expected = take(stream, size + 12)
    assert stream.position(size) == (0, size)
    assert stream.position(size + 5) == (1, 5)
    _, second_pool = stream._seek((0, size // 3), 0)
    assert 1 < second_pool < size // 2
    for done in (1, second_pool - 1, second_pool, size, size + 3):
        start = stream.position(done)
        resumed = make_stream(prepared, seed=0, start=start)
        assert take(resumed, 4) == expected[done : done + 4]
        for more in range(5):
            assert resumed.position(more) == stream.position(done + more)


def test_reading_starts_at_the_pool_of_the_position(prepared, small_pools):
    stream = make_stream(prepared)
    sizes = batches_of_pools(stream)
    for pool, before in enumerate(np.cumsum([0, *sizes])[:5].tolist()):
        assert stream._seek((0, before), 1) == (pool, before)
        last = before + sizes[pool] - 1
        assert stream._seek((0, last), 1) == (pool, before)
    assert stream._seek((0, sum(sizes)), 1) == (5, sum(sizes))
    resumed = make_stream(prepared, start=(0, sizes[0] + 1))
    assert resumed._first_pool == 1


def batches_of_pools(stream):
    """Returns how many batches each pool has, from the longest pairs down."""
    pairs_of_pools = [[] for _ in range(5)]
    seed = pipeline.seed_of_pass(1, tf.constant(0, tf.int64))
    for pool, found in enumerate(pairs_of_pools):
        drawn = stream._draw(seed, tf.constant(pool, tf.int64)).numpy()
        found += [len(max(PAIRS[place], key=len)) + 1 for place in drawn]
    counts = []
    for rest in pairs_of_pools:
        counts.append(0)
        rest.sort(reverse=True)
        while rest:
            padded = min(n for n in bucket_lengths(20) if n >= rest[0])
            del rest[: 200 // (2 * padded)]
            counts[-1] += 1
    return counts


def test_a_start_behind_the_end_of_a_pass(prepared, small_pools):
    size = len(read_pass(make_stream(prepared)))
    stream = make_stream(prepared, start=(0, size + 7))
    expected = take(make_stream(prepared, start=(1, 7)), 3)
    assert take(stream, 3) == expected
    positions = [stream.position(n) for n in range(4)]
    assert positions == [(0, size + 7), (1, 8), (1, 9), (1, 10)]


# === Workers ===


def test_workers_share_the_pairs(prepared, small_pools):
    found = []
    for index in range(3):
        stream = make_stream(prepared, shard=(index, 3))
        own = numbers(read_pass(stream))
        assert sorted(own) == list(range(15 + index, 300, 3))
        found += own
        resumed = make_stream(prepared, shard=(index, 3), start=(0, 9))
        assert take(resumed, 3) == take(stream, 12)[9:]
    assert sorted(found) == list(range(15, 300))


def test_more_workers_than_pairs(tmp_path):
    prepared = ids.write(tmp_path / "prepared", [ids.pair(n) for n in range(2)])
    assert len(take(make_stream(prepared, shard=(1, 2)), 3)) == 3
    with pytest.raises(InputError, match="Received: 2 pairs for 3 workers"):
        make_stream(prepared, shard=(2, 3))


def test_a_pair_that_exceeds_the_budget(prepared):
    with pytest.raises(InputError, match="at least 2 .* = 40. Received"):
        PreparedStream(prepared, batch_tokens=39, seed=1)


# === Exit ===

_SCRIPT = """
import sys
from keras_transformer.train.data.prepared import Prepared
from keras_transformer.train.data.prepared_stream import PreparedStream

stream = PreparedStream(Prepared.open(sys.argv[1]), batch_tokens=200, seed=1)
iterator = iter(stream.dataset)
next(iterator)
if len(sys.argv) > 2:
    raise KeyError(sys.argv[2])
"""


@pytest.mark.slow
@pytest.mark.parametrize("error", [[], ["an error"]])
def test_the_process_ends_while_batches_are_prefetched(prepared, error):
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(prepared.path), *error],
        timeout=120,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == len(error)
    assert all(f"KeyError: {name!r}" in done.stderr for name in error)
