"""Counts, the order of a file, and checksums."""

import random

import pytest
import sentencepiece
from corpora import as_dataset

from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.train.data import statistics
from keras_transformer.train.data.statistics import (
    Statistics,
    checksum,
    collect_statistics,
)

PAIRS = [
    (f"{i} {'dog ' * (i % 9)}", f"{i} {'Hund ' * (i * 5 % 13)}")
    for i in range(100, 300)
]


@pytest.fixture(scope="module")
def tokenizer():
    texts = [text for pair in PAIRS for text in pair]
    return Tokenizer.train(texts, vocab_size=300)


@pytest.fixture(scope="module")
def library(tokenizer):
    """The tokenizer in the sentencepiece library."""
    return sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)


def test_counts(tokenizer, library):
    long = "dog " * 200
    dropped = [("", "a"), ("a", " \t "), ("", long), (long, "a"), ("a", long)]
    pairs = PAIRS[:100] + dropped + PAIRS[100:]
    ids = [[library.encode(text) for text in pair] for pair in PAIRS]
    assert collect_statistics(as_dataset(pairs), tokenizer, 20) == Statistics(
        pairs=len(PAIRS),
        dropped_long=2,
        dropped_empty=3,
        source_tokens=sum(len(source) + 1 for source, _ in ids),
        target_tokens=sum(len(target) + 1 for _, target in ids),
        longest=len(library.encode(long)) + 1,
        sorted_by=None,
    )


def test_one_token_too_long(tokenizer, library):
    length = len(library.encode("dog dog dog dog")) + 1
    pairs = as_dataset([("dog dog dog dog", "dog")])
    assert collect_statistics(pairs, tokenizer, length).pairs == 1
    found = collect_statistics(pairs, tokenizer, length - 1)
    assert (found.pairs, found.dropped_long) == (0, 1)


def test_more_pairs_than_are_tokenized_at_once(tokenizer):
    pairs = as_dataset(PAIRS).repeat(7)
    found = collect_statistics(pairs, tokenizer, 20)
    once = collect_statistics(as_dataset(PAIRS), tokenizer, 20)
    assert found.pairs == 7 * len(PAIRS)
    assert found.target_tokens == 7 * once.target_tokens
    assert found.longest == once.longest


def test_no_pairs(tokenizer):
    pairs = as_dataset(PAIRS).take(0)
    found = collect_statistics(pairs, tokenizer, 20)
    assert found == Statistics(0, 0, 0, 0, 0, 0)


# === The order of a file ===


def orders():
    """{what a file of 640 pairs is sorted by: its pairs}."""
    shuffled = random.Random(1)
    pairs = shuffled.choices(PAIRS, k=640)
    by_length = sorted(pairs, key=lambda pair: len(pair[0] + pair[1]))
    # "dog" and "Hund" are one token each, so the lengths stay the same.
    sources = [
        (source.replace("dog", "Hund") if number >= 400 else source, target)
        for number, (source, target) in enumerate(pairs)
    ]
    targets = [
        (source, target.replace("Hund", "dog") if number >= 400 else target)
        for number, (source, target) in enumerate(pairs)
    ]
    return {
        "nothing": (pairs, None),
        "length": (by_length, "length"),
        "length, descending": (by_length[::-1], "length"),
        "language of the source": (sources, "kind"),
        "language of the target": (targets, "kind"),
        "language, shuffled": (shuffled.sample(sources, 640), None),
        "length, but short": (by_length[:576], None),
    }


@pytest.mark.parametrize("order", orders())
def test_sorted_by(tokenizer, order, monkeypatch):
    # Parts of 64 pairs, so that few are needed.
    monkeypatch.setattr(statistics, "READ_BATCH", 64)
    pairs, expected = orders()[order]
    found = collect_statistics(as_dataset(pairs), tokenizer, 60)
    assert found.pairs == len(pairs)
    assert found.sorted_by == expected


def test_order_warning():
    assert Statistics(9, 0, 0, 9, 9, 9).order_warning() is None
    by_length = Statistics(9, 0, 0, 9, 9, 9, sorted_by="length")
    assert by_length.order_warning() == (
        "The pairs seem to be sorted by length: they are shorter or longer at "
        "the end. Training draws from 100,000 pairs at a time, so shuffle a "
        "longer corpus before training."
    )
    by_kind = Statistics(9, 0, 0, 9, 9, 9, sorted_by="kind")
    assert "sorted by language or kind: " in by_kind.order_warning()


# === Checksums ===


def test_the_checksum_depends_on_the_texts_and_their_order():
    pairs = [(f"{i % 300} dogs", f"{i % 300} Hunde") for i in range(3000)]
    (source, target), *others = pairs
    different = [
        [*others, pairs[0]],
        pairs[::-1],
        pairs[1024:] + pairs[:1024],
        [(target, source), *others],
        [(source + "s", target), *others],
    ]
    found = {checksum(as_dataset(each)) for each in [pairs, *different]}
    assert len(found) == 6


def test_the_checksum_does_not_change_between_versions():
    """Runs record it."""
    pairs = [("a", "b"), ("c", "d"), ("Ä", "")]
    assert checksum(as_dataset(pairs)) == 3952004391
    parts = as_dataset(pairs[:1]), as_dataset(pairs[1:])
    assert checksum(*parts) == 3518332558
    many = as_dataset([(f"{i} dogs", f"{i} Hunde") for i in range(3000)])
    assert checksum(many) == 3564392254
    assert checksum(many.take(0)) == 0
