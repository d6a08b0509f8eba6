"""From texts to ids: what is kept, and the counts."""

import types

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from ids import rows

from keras_transformer.support.errors import InputError
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.train.data import encoding
from keras_transformer.train.data.encoding import PairEncoder, Statistics

PAIRS = [
    (f"{i} {'dog ' * (i % 9)}", f"{i} {'Hund ' * (i * 5 % 13)}")
    for i in range(100, 300)
]
LONG = "dog " * 200
DROPPED = [("", "a"), ("a", " \t "), ("", LONG), (LONG, "a"), ("a", LONG)]
# As blank sides, invisible ones are empty.
DROPPED += [("\u00a0\u200b", "a"), ("a", "\u3000\ufeff\0")]


@pytest.fixture(scope="module")
def tokenizer():
    texts = [text for pair in PAIRS for text in pair]
    return Tokenizer.train(texts, vocab_size=288)


@pytest.fixture(scope="module")
def library(tokenizer):
    """The tokenizer in the sentencepiece library."""
    return sentencepiece.SentencePieceProcessor(
        model_proto=tokenizer.target.model
    )


def test_ids_and_counts(tokenizer, library, monkeypatch):
    """In several batches, from an iterator and from a dataset."""
    monkeypatch.setattr(encoding, "BATCH", 64)
    pairs = PAIRS[:100] + DROPPED + PAIRS[100:]
    expected = [library.encode(text) for pair in PAIRS for text in pair]
    sides = tuple(map(list, zip(*pairs, strict=True)))
    for texts in (iter(pairs), tf.data.Dataset.from_tensor_slices(sides)):
        encoder = PairEncoder(tokenizer, 20)
        (shard,) = encoder.shards(texts)
        assert rows([shard]) == expected
        assert shard.ids.dtype == np.uint16
        assert shard.offsets.dtype == np.int32
        assert encoder.statistics == Statistics(
            pairs=len(PAIRS),
            dropped=dict(long=2, empty=5),
            source_tokens=sum(len(ids) + 1 for ids in expected[::2]),
            target_tokens=sum(len(ids) + 1 for ids in expected[1::2]),
        )


def test_bytes_that_are_not_utf8_are_replaced(tokenizer):
    texts = [b"d\xffog", b" dog\xe2\x82 ", "\u00a0Hund\u200b\0s".encode()]
    pairs = tf.data.Dataset.from_tensor_slices((texts, texts[::-1]))
    (shard,) = PairEncoder(tokenizer, 90).shards(pairs)
    texts = ["d\ufffdog", " dog\ufffd\ufffd ", "\u00a0Hund\u200b\0s"]
    sources = tokenizer.encode_sources(texts)
    targets = tokenizer.encode_targets(texts[::-1])
    assert rows([shard])[::2] == sources and rows([shard])[1::2] == targets


def test_reasons_of_lengths(tokenizer):
    """Limits and lengths are with end tokens."""

    def encode(_, texts):
        return [[0] * (int(text) - 1) for text in texts]

    task = types.SimpleNamespace(encode_sources=encode, encode_targets=encode)
    pairs = [(1, 9), (9, 3), (8, 1), (6, 3), (3, 7), (8, 8), (2, 4), (9, 1)]
    # Tags count for the length of a source, not for the ratio.
    tagged = [(9, 3), (6, 2), (7, 2), (3, 2), (3, 6)]
    for lengths, ratio, tags, expected in (
        (pairs, 2, "", "empty long empty - ratio - - empty"),
        (pairs, None, "", "empty long empty - - - - empty"),
        (tagged, 2, "ab", "long - ratio - ratio"),
    ):
        dropped = []
        encoder = PairEncoder(tokenizer, 8, task, ratio, dropped.append, tags)
        texts = [tuple(map(str, pair)) for pair in lengths]
        list(encoder.shards(texts))
        reasons = {pair[:2]: pair.dropped_for for pair in dropped}
        found = [reasons.get(pair, "-") for pair in texts]
        assert found == expected.split()


def test_no_pairs(tokenizer):
    encoder = PairEncoder(tokenizer, 20)
    (shard,) = encoder.shards([])
    assert (shard.ids.size, shard.offsets.tolist()) == (0, [0])
    assert encoder.statistics == Statistics()


def test_shards(tokenizer, monkeypatch):
    (whole,) = PairEncoder(tokenizer, 20).shards(PAIRS)
    monkeypatch.setattr(encoding, "BATCH", 10)
    monkeypatch.setattr(encoding, "SHARD_IDS", 500)
    shards = list(PairEncoder(tokenizer, 20).shards(PAIRS))
    assert len(shards) > 3
    assert all(500 <= ids.size < 1_000 for ids, _ in shards[:-1])
    assert rows(shards) == rows([whole])
    # No shard is empty if the last batch fills one.
    monkeypatch.setattr(encoding, "SHARD_IDS", 1)
    assert len(list(PairEncoder(tokenizer, 20).shards(PAIRS))) == 20


@pytest.mark.parametrize("firsts", [(0, 70_000), (70_000, 0)])
def test_any_task_may_give_the_ids(firsts):
    """One side is not a text and has more than 2^16 ids."""

    def lengths(first):
        return lambda tokenizer, texts: [[len(x) + first] for x in texts]

    source, target = map(lengths, firsts)
    task = types.SimpleNamespace(encode_sources=source, encode_targets=target)
    source, target = (
        types.SimpleNamespace(vocab_size=first + 10_000) for first in firsts
    )
    tokenizer = types.SimpleNamespace(
        source=source, target=target, vocab_size=target.vocab_size
    )
    (shard,) = PairEncoder(tokenizer, 9, task).shards(PAIRS)
    for side, first in enumerate(firsts):
        expected = [len(pair[side]) + first for pair in PAIRS]
        assert shard.ids.tolist()[side::2] == expected


def test_no_pair_is_left():
    Statistics(pairs=1).check(20)
    found = Statistics(dropped=dict(long=3, empty=1, ratio=2))
    with pytest.raises(InputError, match="3 longer than 20 .* 1 .* 2 with"):
        found.check(20)
