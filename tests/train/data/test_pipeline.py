"""Batches: each pair once per pass, within the budget, each id in its place."""

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from corpora import as_dataset

from keras_transformer.support.errors import InputError
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.train.data import pipeline
from keras_transformer.train.data.batching import bucket_lengths
from keras_transformer.train.data.pipeline import (
    TrainingStream,
    evaluation_batches,
    training_batches,
)

MAX_LENGTH = 20
SIZES = {"batch_tokens": 200, "max_length": MAX_LENGTH}

# Each pair has its number on both sides; the lengths differ.
PAIRS = [
    (f"{i} {'dog ' * (i % 9)}".strip(), f"{i} {'Hund ' * (i * 5 % 13)}".strip())
    for i in range(100, 400)
]


@pytest.fixture(scope="module")
def tokenizer():
    texts = [text for pair in PAIRS for text in pair]
    return Tokenizer.train(texts, vocab_size=300)


@pytest.fixture(scope="module")
def library(tokenizer):
    """The tokenizer in the sentencepiece library."""
    return sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)


def read_pass(tokenizer, number=0, **arguments):
    """Returns the batches of a pass over PAIRS."""
    arguments = {"pairs": as_dataset(PAIRS), "seed": 1, **SIZES, **arguments}
    stream = TrainingStream(tokenizer=tokenizer, start=(number, 0), **arguments)
    batches = []
    for batch in stream.dataset:
        if stream.position(len(batches) + 1)[0] != number:
            return batches
        batches.append(batch)


@pytest.fixture(scope="module")
def first_pass(tokenizer):
    tf.random.set_seed(0)  # see test_the_global_seed_does_not_matter
    return read_pass(tokenizer)


def decode(batches, library):
    """Returns the pairs of batches as texts."""
    pairs = []
    for inputs, labels in batches:
        for sides in zip(inputs["source"], labels, strict=True):
            source, target = (
                library.decode([i for i in row.numpy().tolist() if i > 3])
                for row in sides
            )
            pairs.append((source, target))
    return pairs


def lengths(batches):
    return [labels.shape[1] for _, labels in batches]


def labels_of(batches):
    return [labels.numpy().tolist() for _, labels in batches]


# === Batches ===


def test_layout(tokenizer, library):
    pairs = [("12 dog", "12 Hund Hund"), ("7", "3 Hund")]
    ((inputs, labels),) = evaluation_batches(
        as_dataset(pairs), tokenizer, **SIZES
    )
    for i, (source, target) in enumerate(pairs):
        s, t = library.encode(source), library.encode(target)
        expected = ([*s, 3], [2, *t], [*t, 3])
        rows = (inputs["source"][i], inputs["target"][i], labels[i])
        for row, ids in zip(rows, expected, strict=True):
            padded = ids + [0] * (8 - len(ids))
            assert row.numpy().tolist() == padded


def test_a_text_of_the_maximum_length_is_complete(tokenizer, library):
    words = "dog"
    while len(library.encode(words)) < MAX_LENGTH - 1:
        words += " dog"
    ids = library.encode(words)
    assert len(ids) == MAX_LENGTH - 1
    ((inputs, labels),) = evaluation_batches(
        as_dataset([(words, words)]), tokenizer, **SIZES
    )
    assert inputs["source"].numpy().tolist() == [[*ids, 3]]
    assert inputs["target"].numpy().tolist() == [[2, *ids]]
    assert labels.numpy().tolist() == [[*ids, 3]]


def test_element_spec(tokenizer):
    batches = training_batches(as_dataset(PAIRS), tokenizer, seed=1, **SIZES)
    inputs_spec, labels_spec = batches.element_spec
    assert sorted(inputs_spec) == ["source", "target"]
    for spec in (*inputs_spec.values(), labels_spec):
        assert spec.dtype == tf.int32
        assert spec.shape.as_list() == [None, None]


def test_nothing_is_tuned(tokenizer):
    """Deleting an iterator might wait for the thread that tunes."""
    datasets = [
        training_batches(as_dataset(PAIRS), tokenizer, seed=1, **SIZES),
        evaluation_batches(as_dataset(PAIRS), tokenizer, **SIZES),
    ]
    assert as_dataset(PAIRS).options().autotune.enabled is None
    for dataset in datasets:
        assert dataset.options().autotune.enabled is False


def test_shapes_and_budget(first_pass):
    smaller = 0
    for inputs, labels in first_pass:
        size, length = labels.shape
        assert inputs["source"].shape == inputs["target"].shape == labels.shape
        # The bucket is the shortest that the longest row fits into.
        used = np.maximum(inputs["source"], labels) > 0
        longest = used.sum(axis=1).max()
        fitting = [n for n in bucket_lengths(MAX_LENGTH) if n >= longest]
        assert length == fitting[0]
        # Only the last batch of a pool may have room for another pair.
        assert size <= 200 // (2 * length)
        smaller += size < 200 // (2 * length)
    assert smaller <= 1
    assert sorted(set(lengths(first_pass))) == [8, 10, 12, 14, 17]


def test_there_is_little_padding(first_pass, library):
    padded = sum(2 * labels.numpy().size for _, labels in first_pass)
    longer = np.array(
        [max(len(library.encode(text)) + 1 for text in pair) for pair in PAIRS]
    )
    # If each pair were padded to its own longer side, and in batches of ten
    # in file order.
    minimum = 2 * longer.sum()
    unsorted = 20 * longer.reshape(-1, 10).max(axis=1).sum()
    assert minimum <= padded < 1.12 * minimum
    assert unsorted > 1.4 * minimum


def test_evaluation_has_every_pair_once(tokenizer, library):
    batches = evaluation_batches(as_dataset(PAIRS), tokenizer, **SIZES)
    for _ in range(2):
        assert sorted(decode(batches, library)) == sorted(PAIRS)
    assert len(list(batches)) == int(batches.cardinality())
    for _, labels in batches:
        assert 2 * labels.shape[0] * labels.shape[1] <= 200


def test_dropped_pairs(tokenizer, library):
    long = "dog " * 200
    dropped = [("", "a"), ("a", " \t "), ("", long), (long, "a"), ("a", long)]
    pairs = as_dataset(PAIRS[:100] + dropped + PAIRS[100:])
    batches = evaluation_batches(pairs, tokenizer, **SIZES)
    assert sorted(decode(batches, library)) == sorted(PAIRS)


def test_one_token_too_long(tokenizer, library):
    length = len(library.encode("dog dog dog dog")) + 1
    pairs = as_dataset([("dog dog dog dog", "dog")])
    for maximum, batches in ((length, 1), (length - 1, 0)):
        sizes = {"batch_tokens": 2 * maximum, "max_length": maximum}
        found = list(evaluation_batches(pairs, tokenizer, **sizes))
        assert len(found) == batches


def test_more_pairs_than_are_tokenized_at_once(tokenizer):
    pairs = as_dataset(PAIRS).repeat(4)
    batches = evaluation_batches(pairs, tokenizer, **SIZES)
    assert sum(labels.shape[0] for _, labels in batches) == 4 * len(PAIRS)


def test_no_pair_is_left(tokenizer):
    pairs = as_dataset([("", "a"), ("dog " * 200, "b")])
    with pytest.raises(InputError, match="No pair is left.*max_length=20"):
        training_batches(pairs, tokenizer, seed=1, **SIZES)
    assert list(evaluation_batches(pairs, tokenizer, **SIZES)) == []


@pytest.mark.parametrize("batches", [training_batches, evaluation_batches])
def test_a_pair_that_exceeds_the_budget(tokenizer, batches):
    seed = {"seed": 1} if batches is training_batches else {}
    pairs = as_dataset(PAIRS)
    with pytest.raises(InputError, match=r"at least 2 \* max_length = 202"):
        batches(pairs, tokenizer, batch_tokens=201, max_length=101, **seed)
    with pytest.raises(InputError, match="max_length=1$"):
        batches(pairs, tokenizer, batch_tokens=201, max_length=1, **seed)
    batches(pairs, tokenizer, batch_tokens=202, max_length=101, **seed)


# === Order ===


def test_every_pass_has_every_pair_once(tokenizer, first_pass, library):
    first = decode(first_pass, library)
    second = decode(read_pass(tokenizer, number=1), library)
    assert sorted(first) == sorted(second) == sorted(PAIRS)
    assert first != second


def test_several_pools(tokenizer, library, monkeypatch):
    monkeypatch.setattr(pipeline, "_POOL_IDS", 70 * MAX_LENGTH)
    batches = read_pass(tokenizer)
    assert sorted(decode(batches, library)) == sorted(PAIRS)


def test_batches_are_not_sorted_by_length(first_pass):
    found = lengths(first_pass)
    assert found != sorted(found)
    assert found != sorted(found, reverse=True)


def test_pools_are_shuffled_differently(tokenizer, monkeypatch):
    """Two pools with the same texts, in another order."""
    monkeypatch.setattr(pipeline, "_POOL_IDS", 150 * MAX_LENGTH)
    pairs = PAIRS[:150] + PAIRS[1:150] + PAIRS[:1]
    # A buffer of one pair leaves the pairs in file order.
    batches = read_pass(tokenizer, pairs=as_dataset(pairs), shuffle_buffer=1)
    half = len(batches) // 2
    first, second = lengths(batches[:half]), lengths(batches[half:])
    assert sorted(first) == sorted(second)
    assert first != second


def test_the_seed_determines_the_batches(tokenizer, first_pass):
    expected = labels_of(first_pass)
    batches = training_batches(as_dataset(PAIRS), tokenizer, seed=1, **SIZES)
    assert labels_of(batches.take(len(expected))) == expected
    assert labels_of(read_pass(tokenizer, seed=2)) != expected


def test_the_order_of_a_seed_is_the_same_everywhere(first_pass):
    """Another order would change the rest of a run that is resumed."""
    expected = [12, 8, 8, 10, 8, 17, 10, 17, 17, 8, 8, 14, 12, 17, 12, 8]
    assert lengths(first_pass)[:16] == expected


def test_the_global_seed_does_not_matter(tokenizer, first_pass):
    """It is 0 for `first_pass`; `shuffle` treats 0 in a special way."""
    tf.random.set_seed(1)
    assert labels_of(read_pass(tokenizer)) == labels_of(first_pass)


# === Positions ===


@pytest.fixture
def make_stream(tokenizer, monkeypatch):
    """Returns a function that makes streams with pools of 70 pairs."""
    monkeypatch.setattr(pipeline, "_POOL_IDS", 70 * MAX_LENGTH)

    def make(pairs, seed, start=(0, 0)):
        return TrainingStream(
            as_dataset(pairs), tokenizer, seed=seed, start=start, **SIZES
        )

    return make


def take(stream, count, prefetch=0):
    """Reads batches while up to `prefetch` more are read ahead."""
    batches = stream.dataset.prefetch(prefetch) if prefetch else stream.dataset
    return labels_of(batches.take(count + prefetch))[:count]


@pytest.mark.parametrize(
    "pairs, seed, size, interruptions",
    [
        (300, 5, 40, [17, 40]),
        (150, 0, 20, [21]),
        (20, 2, 3, [2, 7]),
    ],
)
def test_a_stream_resumes_at_its_position(
    make_stream, pairs, seed, size, interruptions
):
    """Within a pass of `size` batches, at its end and in a later pass."""
    pairs = PAIRS[:pairs]
    stream = make_stream(pairs, seed)
    expected = take(stream, 2 * size + 8)
    assert stream.position(size) == (0, size)
    assert stream.position(size + 1) == (1, 1)
    assert expected[:size] != expected[size : 2 * size]
    for done in interruptions:
        resumed = make_stream(pairs, seed, start=stream.position(done))
        assert take(resumed, 5) == expected[done : done + 5]
        # So that it can be resumed again.
        for more in range(6):
            assert resumed.position(more) == stream.position(done + more)


def test_positions_count_the_batches_of_each_pass(make_stream):
    stream = make_stream(PAIRS[:9], 3)
    # Nine pairs make two batches.
    take(stream, 5)
    positions = [stream.position(done) for done in range(6)]
    assert positions == [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 1)]
    assert all(type(number) is int for pair in positions for number in pair)


def test_a_start_behind_the_end_of_a_pass(make_stream):
    """Passes of other data may be shorter than when the run was started."""
    expected = take(make_stream(PAIRS[:9], 3), 5)
    stream = make_stream(PAIRS[:9], 3, start=(0, 3))
    assert take(stream, 2) == expected[3:]
    assert [stream.position(n) for n in range(3)] == [(0, 3), (1, 2), (2, 1)]


def test_a_position_does_not_depend_on_prefetching(make_stream):
    """Nor on how often the dataset is iterated."""
    plain, prefetched = make_stream(PAIRS, 5), make_stream(PAIRS, 5)
    batches = take(plain, 60)
    assert take(prefetched, 60, prefetch=100) == batches
    assert take(prefetched, 20, prefetch=100) == batches[:20]
    for done in (1, 20, 40, 41, 60):
        assert prefetched.position(done) == plain.position(done)
    assert plain.position(60) == (1, 20)


def test_positions_of_a_distributed_dataset(make_stream):
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    plain, distributed = make_stream(PAIRS, 5), make_stream(PAIRS, 5)
    expected = take(plain, 50)

    def same_for_both_replicas(context):
        return distributed.dataset.flat_map(
            lambda *batch: tf.data.Dataset.from_tensors(batch).repeat(2)
        )

    iterable = strategy.distribute_datasets_from_function(
        same_for_both_replicas
    )
    for _ in range(2):
        iterator = iter(iterable)
        for done in range(1, 51):
            _, labels = next(iterator)
            first, second = strategy.experimental_local_results(labels)
            assert first.numpy().tolist() == expected[done - 1]
            assert second.numpy().tolist() == expected[done - 1]
            assert distributed.position(done) == plain.position(done)
    assert plain.position(50) == (1, 10)
