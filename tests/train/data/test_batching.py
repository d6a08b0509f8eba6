"""Batches: each pair once per pass, each id in its place, a global order."""

import functools

import ids
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from ids import MAX_LENGTH

from keras_transformer.support.errors import InputError
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.train.data import batching
from keras_transformer.train.data.batching import (
    BatchOrder,
    PairIds,
    evaluation_batches,
    make_batches,
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


def make_order(shards=SHARDS, seed=1, **arguments):
    return BatchOrder(shards, seed=seed, **SIZES, **arguments)


def batches_of(order, start=(0, 0), shards=SHARDS):
    pairs = PairIds(shards, ids.tokenizer(), MAX_LENGTH)
    return make_batches(pairs, order, start)


def take(order, count, start=(0, 0), **arguments):
    """Returns batches from a position on as (source, target, labels)."""
    return [
        [rows.numpy().tolist() for rows in (*inputs.values(), labels)]
        for inputs, labels in batches_of(order, start, **arguments).take(count)
    ]


def read_pass(order, **arguments):
    """Returns the batches of the first pass."""
    return take(order, int(order.count_batches(0).sum()), **arguments)


@pytest.fixture(scope="module")
def passes():
    """An order with five pools in a pass, and the batches of two passes."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(batching, "_POOL_IDS", 70 * MAX_LENGTH)
        order = make_order(seed=0)
    first, second = (int(order.count_batches(n).sum()) for n in (0, 1))
    batches = take(order, first + second)
    return order, batches[:first], batches[first:]


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
    batches = read_pass(make_order())
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


def test_sources_may_lack_an_end_token(monkeypatch):
    tokenizer = ids.tokenizer()
    monkeypatch.setattr(tokenizer, "source_eos_id", tokenizer.pad_id)
    sources = PairIds(SHARDS, tokenizer, MAX_LENGTH).read(
        tf.constant([0, 150], tf.int64)
    )[0]
    assert sources.numpy().tolist() == [pad(PAIRS[n][0]) for n in (0, 150)]


# === Order ===


def test_every_pass_has_every_pair_once(passes):
    _, *batches = passes
    first, second = map(numbers, batches)
    assert sorted(first) == sorted(second) == list(range(15, 300))
    assert first != second


def test_the_seed_alone_determines_the_batches(small_pools, passes):
    """A different order would change the rest of a resumed run."""
    tf.random.set_seed(1)
    found = lengths(take(make_order(), 12))
    assert found == [17, 17, 8, 10, 17, 8, 20, 14, 12, 20, 17, 10]
    order, first, _ = passes
    assert found != lengths(first[:12])
    tf.random.set_seed(2)
    assert take(order, 3) == first[:3]


def test_the_order_is_global():
    """Each pool is a sample of the whole file, and no pair follows another."""
    order = make_order([ids.shard([ids.pair(n) for n in range(60_000)])])
    order._pool_size = 6_000
    pools = [order._draw(5, tf.constant(n, tf.int64)) for n in range(10)]
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


def test_the_order_of_a_small_corpus_is_uniform():
    """Over many passes each pair is as often in each twelfth of a pass."""
    pairs, passes, parts = 1_200, 400, 12
    order = make_order([ids.shard([ids.pair(n) for n in range(pairs)])])
    draw = tf.function(order._draw)
    found = np.zeros((pairs, parts))
    for number in range(passes):
        drawn = draw(tf.constant(number, tf.int64), tf.constant(0, tf.int64))
        found[drawn.numpy(), np.arange(pairs) * parts // pairs] += 1
    expected = passes / parts
    freedom = pairs * (parts - 1)
    chi_square = ((found - expected) ** 2 / expected).sum() / freedom
    # Its deviation is 0.012. One word of the key alone gives 2.5.
    assert chi_square == pytest.approx(1, abs=0.06)


def test_pools_are_shuffled_differently(small_pools):
    """Five pools of pairs of the same lengths."""
    shards = [ids.shard([ids.pair(n, (2 + n % 17, 2)) for n in range(17 * 20)])]
    found = lengths(read_pass(make_order(shards), shards=shards))
    size = len(found) // 5
    pools = [found[i * size : (i + 1) * size] for i in range(5)]
    assert len({tuple(pool) for pool in pools}) == 5


# === Positions ===


def test_batches_resume_at_their_position(passes):
    """At the begin and the end of pools and passes, and within them."""
    order, first, second = passes
    sizes, size = order.count_batches(0), len(first)
    assert len(sizes) == 5
    expected = first + second
    start = (0, 0)
    ends = [order.advance(start, done) for done in (0, size, size + 5)]
    assert ends == [(0, 0), (0, size), (1, 5)]
    for done in map(int, (sizes[0] - 1, sizes[0], size, size + 3)):
        position = order.advance(start, done)
        assert take(order, 4, position) == expected[done : done + 4]
        for more in range(1, 5):
            found = order.advance(position, more)
            assert found == order.advance(start, done + more)
    # A position behind the end of a pass.
    behind = (0, size + 7)
    assert take(order, 3, behind) == second[7:10]
    assert order.advance(behind, 2) == (1, 9)


def test_reading_starts_at_the_pool_of_the_position(passes):
    order, *_ = passes
    ends = np.cumsum(order.count_batches(0)).tolist()
    for pool, (begin, end) in enumerate(
        zip([0, *ends[:-1]], ends, strict=True)
    ):
        assert order.seek((0, begin)) == (pool, 0)
        assert order.seek((0, end - 1)) == (pool, end - 1 - begin)
    assert order.seek((0, ends[-1])) == (5, 0)
    assert order.seek((2, 0)) == (10, 0)


# === Workers ===


def test_workers_share_the_pairs(small_pools):
    found = []
    for index in range(2):
        order = make_order(worker_share=(index, 2))
        own = read_pass(order)
        assert sorted(numbers(own)) == list(range(15 + index, 300, 2))
        found += numbers(own)
    assert take(order, 3, (0, 9)) == own[9:12]
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
