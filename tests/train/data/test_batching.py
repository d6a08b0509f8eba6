"""Batches: each pair once per pass, each id in its place, a global order."""

import functools
import itertools
import os
import subprocess
import sys

import ids
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from ids import MAX_LENGTH

from keras_transformer.support.errors import InputError
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.train.data import batching, pools
from keras_transformer.train.data.batching import (
    Batches,
    evaluation_batches,
    training_batches,
)
from keras_transformer.train.data.pools import bucket_lengths

SIZES = {"batch_tokens": 200, "max_length": MAX_LENGTH}

# Sorted by length, with the same number of pairs of each length.
PAIRS = [
    ids.pair(n, (2 + n * 17 // 300, 2 + n * 17 // 300 - n % 2))
    for n in range(15, 300)
]
SHARDS = [ids.shard(PAIRS[first : first + 100]) for first in (0, 100, 200)]

# Each pair has its number on both sides; the lengths differ.
TEXTS = [
    (f"{i} {'dog ' * (i % 9)}".strip(), f"{i} {'Hund ' * (i * 5 % 9)}".strip())
    for i in range(100, 200)
]


@pytest.fixture
def small_pools(monkeypatch):
    """Pools of 70 pairs, five in a pass."""
    monkeypatch.setattr(batching, "_POOL_IDS", 70 * MAX_LENGTH)


def make(shards=SHARDS, seed=1, **arguments):
    arguments = {**SIZES, "seed": seed, **arguments}
    return Batches(shards, ids.tokenizer(), **arguments)


def take(batches, count):
    """Returns the first batches as (source, target, labels)."""
    return [
        [rows.tolist() for rows in (*inputs.values(), labels)]
        for inputs, labels in itertools.islice(batches, count)
    ]


def read_pass(batches):
    return take(batches, batches.count_batches_of_pass())


@pytest.fixture
def passes(small_pools):
    """The batches of two passes with five pools each, and how many each has."""
    batches = make(seed=0)
    size = batches.count_batches_of_pass()
    both = take(batches, 3 * size)
    ends = [len(both[0][0]), *itertools.accumulate(len(x[0]) for x in both)]
    both = both[: ends.index(2 * 285)]
    return both[:size], both[size:]


def numbers(batches):
    """Returns the numbers of the pairs, in the order of the batches."""
    return [ids.number_of(row) for source, _, _ in batches for row in source]


def lengths(batches):
    return [len(labels[0]) for _, _, labels in batches]


def pad(row):
    return (row + [0] * MAX_LENGTH)[:MAX_LENGTH]


def test_layout_and_budget():
    expected = {
        ids.number_of(source): (source, target) for source, target in PAIRS
    }
    smaller = 0
    batches = read_pass(make())
    for batch in batches:
        longest = 0
        for source, target, labels in zip(*batch, strict=True):
            s, t = expected.pop(ids.number_of(source))
            longest = max(longest, len(s) + 1, len(t) + 1)
            for row, expected_ids in (
                (source, [*s, 3]),
                (target, [2, *t]),
                (labels, [*t, 3]),
            ):
                assert row == pad(expected_ids)[: len(source)]
        size, length = len(batch[0]), len(source)
        # The bucket is the shortest that the longest row fits into.
        fitting = [n for n in bucket_lengths(MAX_LENGTH) if n >= longest]
        assert length == fitting[0]
        # Only the last batch of a pool may have room for another pair.
        assert size <= 200 // (2 * length)
        smaller += size < 200 // (2 * length)
    assert not expected
    assert smaller <= 1
    found = lengths(batches)
    assert found != sorted(found) and found != sorted(found, reverse=True)


def test_rows_of_padding_fill_each_batch():
    """Few shapes, and the same pairs."""
    plain, filled = make(), make(rows_multiple=4)
    sizes = {n: max(200 // (2 * n) // 4 * 4, 4) for n in bucket_lengths(20)}
    found = []
    for source, target, labels in read_pass(filled):
        assert len(source) == sizes[len(source[0])]
        for row, *others in zip(source, target, labels, strict=True):
            if any(row):
                found.append(row[: row.index(3)])
            else:
                assert not any(map(any, others))
    expected = [row[: row.index(3)] for x in read_pass(plain) for row in x[0]]
    assert sorted(found) == sorted(expected)


def test_sources_may_lack_an_end_token(monkeypatch):
    monkeypatch.setattr(ids.tokenizer(), "source_eos_id", 0)
    found = [[x for x in row if x] for b in read_pass(make()) for row in b[0]]
    assert sorted(found) == sorted(source for source, _ in PAIRS)


# === Order ===


def test_every_pass_has_every_pair_once(passes):
    first, second = map(numbers, passes)
    assert sorted(first) == sorted(second) == list(range(15, 300))
    assert first != second


def test_the_seed_alone_determines_the_batches(small_pools):
    """A different order would change the rest of a resumed run."""
    found = lengths(take(make(), 12))
    assert found == [20, 10, 8, 17, 20, 8, 17, 12, 14, 14, 10, 8]
    assert found != lengths(take(make(seed=0), 12))
    assert take(make(), 30) == take(make(), 30)


def test_the_order_is_global():
    """Each pool is a sample of the whole file, and no pair follows another."""
    places = pools.permute(np.arange(60_000), 60_000, 1, 5) / 60_000
    assert np.unique(places).size == 60_000
    # Of independent numbers, the means have a deviation of 0.0037 and the
    # correlations one of 0.0041.
    for pool in np.split(places, 10):
        assert pool.mean() == pytest.approx(0.5, abs=0.015)
        assert pool.std() == pytest.approx(12**-0.5, abs=0.01)
    for lag in (1, 2, 3, 1_024):
        correlation = np.corrcoef(places[lag:], places[:-lag])[0, 1]
        assert abs(correlation) < 0.016


def test_the_order_of_a_small_corpus_is_uniform():
    """Over many passes each pair is as often in each twelfth of a pass."""
    pairs, passes, parts = 1_200, 400, 12
    found = np.zeros((pairs, parts))
    for number in range(passes):
        drawn = pools.permute(np.arange(pairs), pairs, 1, number)
        found[drawn, np.arange(pairs) * parts // pairs] += 1
    expected = passes / parts
    freedom = pairs * (parts - 1)
    chi_square = ((found - expected) ** 2 / expected).sum() / freedom
    # Its deviation is 0.012.
    assert chi_square == pytest.approx(1, abs=0.06)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64, 65])
def test_a_permutation_of_any_size(size):
    drawn = pools.permute(np.arange(size), size, 7)
    assert sorted(drawn.tolist()) == list(range(size))


def test_pools_are_shuffled_differently(small_pools):
    """Five pools of pairs of the same lengths."""
    shards = [ids.shard([ids.pair(n, (2 + n % 17, 2)) for n in range(17 * 20)])]
    found = lengths(read_pass(make(shards)))
    size = len(found) // 5
    parts = [found[i * size : (i + 1) * size] for i in range(5)]
    assert len({tuple(part) for part in parts}) == 5


# === Positions ===


def test_batches_start_at_any_index(passes):
    """At the begin and the end of pools and passes, and within them."""
    expected = [batch for batches in passes for batch in batches]
    for start in range(0, len(expected) - 4, 3):
        assert take(make(seed=0, start=start), 4) == expected[start : start + 4]


def test_batches_are_read_in_any_order(passes):
    first, second = passes
    batches = make(seed=0)
    for index in (0, 1, 0, len(first) + 7, 3, len(first) - 1, 2):
        (_, labels) = batches[index]
        assert labels.tolist() == (first + second)[index][2]


# === Workers ===


def test_workers_share_the_pairs(small_pools):
    found = []
    for index in range(2):
        own = numbers(read_pass(make(worker_share=(index, 2))))
        assert sorted(own) == list(range(15 + index, 300, 2))
        found += own
    assert sorted(found) == list(range(15, 300))


# === Pairs of texts in memory ===


@pytest.fixture(scope="module")
def tokenizer():
    texts = [text for pair in TEXTS for text in pair]
    return Tokenizer.train(texts, vocab_size=288)


def decode(batches, tokenizer):
    """Returns the pairs of batches as texts."""
    library = sentencepiece.SentencePieceProcessor(
        model_proto=tokenizer.target.model
    )
    pairs = []
    for inputs, labels in batches:
        for sides in zip(inputs["source"], labels, strict=True):
            source, target = (
                library.decode([i for i in row.numpy().tolist() if i > 3])
                for row in sides
            )
            pairs.append((source, target))
    return pairs


def test_batches_of_texts(tokenizer):
    """Of a list and of a dataset, within the scope of a strategy too."""
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        batches = training_batches(TEXTS, tokenizer, seed=1, **SIZES)
    size = len(evaluation_batches(TEXTS, tokenizer, **SIZES))
    assert sorted(decode(batches.take(size), tokenizer)) == sorted(TEXTS)
    sides = tuple(map(list, zip(*TEXTS, strict=True)))
    dataset = tf.data.Dataset.from_tensor_slices(sides)
    others = training_batches(dataset, tokenizer, seed=1, **SIZES)
    for (_, ours), (_, theirs) in zip(
        batches.take(size), others.take(size), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    inputs_spec, labels_spec = batches.element_spec
    assert sorted(inputs_spec) == ["source", "target"]
    for spec in (*inputs_spec.values(), labels_spec):
        assert spec.dtype == tf.int32
        assert spec.shape.as_list() == [None, None]
    # Deleting an iterator might wait for the thread that tunes.
    assert batches.options().autotune.enabled is False


def test_evaluation_has_every_pair_once(tokenizer):
    long = "dog " * 200
    dropped = [("", "a"), ("a", " \t "), (long, "a"), ("a", long)]
    pairs = TEXTS[:50] + dropped + TEXTS[50:]
    batches = evaluation_batches(pairs, tokenizer, **SIZES)
    for _ in range(2):
        assert sorted(decode(batches, tokenizer)) == sorted(TEXTS)
    assert len(list(batches)) == int(batches.cardinality())
    for _, labels in batches:
        assert 2 * labels.shape[0] * labels.shape[1] <= 200


def test_no_pair_is_left(tokenizer):
    pairs = [("", "a"), ("dog " * 200, "b")]
    with pytest.raises(InputError, match="than 20 tokens"):
        training_batches(pairs, tokenizer, seed=1, **SIZES)
    assert len(evaluation_batches(pairs, tokenizer, **SIZES)) == 0


def test_a_pair_that_exceeds_the_budget(tokenizer):
    for batches in (
        evaluation_batches,
        functools.partial(training_batches, seed=1),
    ):
        with pytest.raises(InputError, match="batch_tokens must .*: 201$"):
            batches(TEXTS, tokenizer, batch_tokens=201, max_length=101)
    evaluation_batches(TEXTS, tokenizer, batch_tokens=202, max_length=101)


_PROGRAM = """
import time
import ids
import tensorflow as tf
from keras_transformer.train.data.batching import Batches, for_fit

class Slow(Batches):
    def __getitem__(self, index):
        end = time.monotonic() + 0.05
        while time.monotonic() < end:
            pass
        return super().__getitem__(index)

shards = [ids.shard([ids.pair(n) for n in range(50)])]
slow = Slow(shards, ids.tokenizer(), batch_tokens=80, max_length=20, seed=1)
cpu = tf.config.list_physical_devices("CPU")[0]
two = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(cpu, two)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
batches = iter(strategy.experimental_distribute_dataset(for_fit(slow)))
next(batches)
raise ZeroDivisionError
"""


@pytest.mark.slow
def test_a_program_ends_while_batches_are_read():
    """A strategy reads ahead in a thread, which waits for Python."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
        timeout=60,
    )
    assert done.returncode == 1
    assert b"ZeroDivisionError" in done.stderr
