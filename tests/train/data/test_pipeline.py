"""Batches: nothing lost, nothing twice, in budget, each id in its place."""

import collections
import itertools

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from keras_transformer.errors import InputError
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.train.data import pipeline
from keras_transformer.train.data.pipeline import (
    bucket_lengths,
    evaluation_batches,
    training_batches,
    training_stream,
)
from keras_transformer.train.data.statistics import Survey, survey

MAX_LENGTH = 20
SIZES = {"batch_tokens": 200, "max_length": MAX_LENGTH}

# Each pair has its number on both sides; the lengths differ.
PAIRS = [
    (f"{i} {'dog ' * (i % 9)}", f"{i} {'Hund ' * (i * 5 % 13)}")
    for i in range(100, 400)
]


@pytest.fixture(scope="module")
def tokenizer():
    texts = [text for pair in PAIRS for text in pair]
    return Tokenizer.train(texts, vocab_size=300)


@pytest.fixture(scope="module")
def library(tokenizer):
    return sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)


def dataset(pairs):
    sources, targets = zip(*pairs, strict=True)
    return tf.data.Dataset.from_tensor_slices((list(sources), list(targets)))


def in_buckets(batches, library):
    """Returns {bucket length: pairs as texts, in order}."""
    buckets = collections.defaultdict(list)
    for inputs, labels in batches:
        for source, target in zip(inputs["source"], labels, strict=True):
            pair = (
                library.decode([i for i in row.numpy().tolist() if i > 3])
                for row in (source, target)
            )
            buckets[labels.shape[1]].append(tuple(pair))
    return buckets


def everything(buckets):
    return itertools.chain.from_iterable(buckets.values())


def normal(pairs):
    return sorted((source.strip(), target.strip()) for source, target in pairs)


def test_bucket_lengths():
    assert bucket_lengths(33) == [8, 10, 12, 14, 17, 20, 23, 27, 32, 33]
    assert bucket_lengths(32)[-2:] == [27, 32]
    assert bucket_lengths(8) == [8]
    assert bucket_lengths(5) == [5]
    assert len(bucket_lengths(256)) < 30


def test_layout(tokenizer, library):
    pairs = [("12 dog", "12 Hund Hund"), ("7", "3 Hund")]
    ((inputs, labels),) = evaluation_batches(dataset(pairs), tokenizer, **SIZES)
    for i, (source, target) in enumerate(pairs):
        s, t = library.encode(source), library.encode(target)
        expected = ([*s, 3], [2, *t], [*t, 3])
        rows = (inputs["source"][i], inputs["target"][i], labels[i])
        for row, ids in zip(rows, expected, strict=True):
            padded = ids + [0] * (8 - len(ids))
            assert row.numpy().tolist() == padded


def test_a_text_of_the_greatest_length_is_whole(tokenizer, library):
    words = "dog"
    while len(library.encode(words)) < MAX_LENGTH - 1:
        words += " dog"
    ids = library.encode(words)
    assert len(ids) == MAX_LENGTH - 1
    ((inputs, labels),) = evaluation_batches(
        dataset([(words, words)]), tokenizer, **SIZES
    )
    assert inputs["source"].numpy().tolist() == [[*ids, 3]]
    assert inputs["target"].numpy().tolist() == [[2, *ids]]
    assert labels.numpy().tolist() == [[*ids, 3]]


def one_pass(tokenizer, number=0):
    """The batches of a pass."""
    stream = training_stream(
        dataset(PAIRS), tokenizer, seed=1, start=(number, 0), **SIZES
    )
    mine = itertools.takewhile(lambda item: int(item[1][0]) == number, stream)
    return [batch for batch, _ in mine]


def test_shapes_and_budget(tokenizer):
    batches = training_batches(dataset(PAIRS), tokenizer, seed=1, **SIZES)
    inputs_spec, labels_spec = batches.element_spec
    for spec in (*inputs_spec.values(), labels_spec):
        assert spec.dtype == tf.int32
        assert spec.shape.as_list() == [None, None]
    seen, less = set(), 0
    for inputs, labels in one_pass(tokenizer):
        size, length = labels.shape
        assert inputs["source"].shape == inputs["target"].shape == labels.shape
        # Padded no more than the longest row needs.
        used = np.maximum(inputs["source"], labels) > 0
        longest = used.sum(axis=1).max()
        fits = [n for n in bucket_lengths(MAX_LENGTH) if n >= longest]
        assert length == fits[0]
        # Full, and not one pair more would fit, but for the last of a pool.
        assert size <= 200 // (2 * length)
        less += size < 200 // (2 * length)
        seen.add(length)
    assert less <= 1
    assert len(seen) > 3


def test_little_is_padding(tokenizer, library):
    batches = one_pass(tokenizer)
    rooms = sum(2 * labels.numpy().size for _, labels in batches)
    lengths = np.array(
        [[len(library.encode(text)) + 1 for text in pair] for pair in PAIRS]
    )
    longer = lengths.max(axis=1)
    # If each pair were padded to its own longer side alone; and in batches of
    # ten as they come.
    least = 2 * longer.sum()
    unsorted = 20 * longer.reshape(-1, 10).max(axis=1).sum()
    assert least <= rooms < 1.12 * least
    assert unsorted > 1.4 * least


def test_evaluation_keeps_every_pair_once(tokenizer, library):
    batches = evaluation_batches(dataset(PAIRS), tokenizer, **SIZES)
    for _ in range(2):
        buckets = in_buckets(batches, library)
        assert normal(everything(buckets)) == normal(PAIRS)
    for _, labels in batches:
        assert 2 * labels.shape[0] * labels.shape[1] <= 200
    assert len(list(batches)) == int(batches.cardinality())


def test_training_shows_every_pair_once_a_pass(tokenizer, library):
    passes = [
        list(everything(in_buckets(one_pass(tokenizer, number), library)))
        for number in (0, 1)
    ]
    for pairs in passes:
        assert normal(pairs) == normal(PAIRS)
    assert passes[0] != passes[1]


def test_batches_are_not_in_the_order_of_their_length(tokenizer):
    lengths = [labels.shape[1] for _, labels in one_pass(tokenizer)]
    assert lengths != sorted(lengths)
    assert lengths != sorted(lengths, reverse=True)


def test_several_pools(tokenizer, library, monkeypatch):
    monkeypatch.setattr(pipeline, "_POOL_IDS", 70 * MAX_LENGTH)
    buckets = in_buckets(one_pass(tokenizer), library)
    assert normal(everything(buckets)) == normal(PAIRS)


@pytest.mark.parametrize("pool", [70, 1000])
@pytest.mark.parametrize("done", [1, 17, 60, 61, 150])
def test_a_position_is_where_the_stream_goes_on(
    tokenizer, done, pool, monkeypatch
):
    """Also at the end of a pass, which has about sixty batches."""
    monkeypatch.setattr(pipeline, "_POOL_IDS", pool * MAX_LENGTH)

    def stream(start=(0, 0)):
        return training_stream(
            dataset(PAIRS), tokenizer, seed=5, start=start, **SIZES
        )

    items = list(stream().take(done + 3))
    position = tuple(items[done - 1][1].numpy().tolist())
    for (_, labels), (_, expected) in zip(
        (batch for batch, _ in stream(position).take(3)),
        (batch for batch, _ in items[done:]),
        strict=True,
    ):
        np.testing.assert_array_equal(labels, expected)


def test_the_global_seed_is_of_no_concern(tokenizer):
    found = []
    for seed in (0, 1):
        tf.random.set_seed(seed)
        found.append([labels.numpy() for _, labels in one_pass(tokenizer)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_seed_gives_the_batches(tokenizer):
    def first_labels(seed):
        batches = training_batches(
            dataset(PAIRS), tokenizer, seed=seed, **SIZES
        )
        return [labels.numpy().tolist() for _, labels in batches.take(60)]

    assert first_labels(1) == first_labels(1)
    assert first_labels(1) != first_labels(2)


def test_dropped_pairs_are_counted(tokenizer, library):
    long = "dog " * 200
    dropped = [
        ("", "leer"),
        ("empty", "  \t "),
        ("", long),
        (long, "kurz"),
        ("short", long),
    ]
    pairs = PAIRS[:100] + dropped + PAIRS[100:]
    ids = [[library.encode(text) for text in pair] for pair in PAIRS]
    assert survey(dataset(pairs), tokenizer, MAX_LENGTH) == Survey(
        pairs=len(PAIRS),
        dropped_long=2,
        dropped_empty=3,
        source_tokens=sum(len(source) + 1 for source, _ in ids),
        target_tokens=sum(len(target) + 1 for _, target in ids),
        longest=len(library.encode(long)) + 1,
    )
    batches = evaluation_batches(dataset(pairs), tokenizer, **SIZES)
    kept = everything(in_buckets(batches, library))
    assert normal(kept) == normal(PAIRS)


def test_one_token_too_long(tokenizer, library):
    length = len(library.encode("dog dog dog dog")) + 1
    pairs = dataset([("dog dog dog dog", "dog")])
    assert survey(pairs, tokenizer, length).pairs == 1
    assert survey(pairs, tokenizer, length - 1).dropped_long == 1
    for most, batches in ((length, 1), (length - 1, 0)):
        sizes = {"batch_tokens": 2 * most, "max_length": most}
        found = list(evaluation_batches(pairs, tokenizer, **sizes))
        assert len(found) == batches


def test_nothing_left_is_said_rather_than_searched_for_ever(tokenizer):
    pairs = dataset([("", "a"), ("dog " * 200, "b")])
    with pytest.raises(InputError, match="No pair is left.*max_length=20"):
        training_batches(pairs, tokenizer, seed=1, **SIZES)
    assert survey(pairs, tokenizer, MAX_LENGTH).pairs == 0
    assert survey(pairs.take(0), tokenizer, 9) == Survey(0, 0, 0, 0, 0, 0)


def test_more_pairs_than_are_tokenized_at_once(tokenizer):
    pairs = dataset(PAIRS).repeat(9)
    assert survey(pairs, tokenizer, MAX_LENGTH).pairs == 9 * len(PAIRS)
    batches = evaluation_batches(pairs, tokenizer, **SIZES)
    assert sum(labels.shape[0] for _, labels in batches) == 9 * len(PAIRS)


@pytest.mark.parametrize("batches", [training_batches, evaluation_batches])
def test_a_pair_that_exceeds_the_budget(tokenizer, batches):
    seed = {"seed": 1} if batches is training_batches else {}
    pairs = dataset(PAIRS)
    with pytest.raises(InputError, match=r"at least 2 \* max_length = 202"):
        batches(pairs, tokenizer, batch_tokens=201, max_length=101, **seed)
    with pytest.raises(InputError, match="max_length=1$"):
        batches(pairs, tokenizer, batch_tokens=201, max_length=1, **seed)
    batches(pairs, tokenizer, batch_tokens=202, max_length=101, **seed)
