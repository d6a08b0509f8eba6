"""Prepared corpora without texts: ids in which each pair has its number."""

import functools

import numpy as np

from keras_transformer.support.files import write_json
from keras_transformer.text import Tokenizer
from keras_transformer.train import preparation
from keras_transformer.train.data.prepared import (
    FORMAT,
    Prepared,
    rows_of_shard,
)

MAX_LENGTH = 20
_FIRST, _BASE = 4, 250  # ids of the digits of a number


@functools.cache
def tokenizer():
    return Tokenizer.train(["a dog", "ein Hund"], vocab_size=270)


def pair(number, lengths=(4, 4)):
    """Returns source and target of a pair: its number, repeated."""
    digits = [_FIRST + number // _BASE, _FIRST + number % _BASE]
    return [(digits * MAX_LENGTH)[:length] for length in lengths]


def number_of(row):
    """Returns the number of the pair that has a row of ids."""
    return (int(row[0]) - _FIRST) * _BASE + int(row[1]) - _FIRST


def write(folder, pairs, shard_pairs=10_000):
    """Writes a prepared corpus of pairs of ids, and opens it."""
    folder.mkdir(exist_ok=True)
    tokenizer().save(folder / "tokenizer.model")
    shards = preparation._Shards(folder)
    for first in range(0, len(pairs), shard_pairs):
        texts = [ids for p in pairs[first : first + shard_pairs] for ids in p]
        shards.add(
            np.concatenate(texts).astype(np.uint16),
            np.array([len(ids) for ids in texts]),
        )
        shards._write()
    write_json(
        folder / "prepared.json",
        dict(
            format=FORMAT,
            task="translation",
            source="en",
            target="de",
            max_length=MAX_LENGTH,
            tokenizer=tokenizer().digest,
            text_splits=[],
            statistics=dict(
                pairs=len(pairs),
                dropped_long=0,
                dropped_empty=0,
                source_tokens=sum(len(s) + 1 for s, _ in pairs),
                target_tokens=sum(len(t) + 1 for _, t in pairs),
                longest=max(len(ids) for p in pairs for ids in p) + 1,
            ),
            checksum=shards.checksum,
            shards=shards.pairs,
        ),
    )
    return Prepared.open(folder)


def rows(prepared):
    """Returns the ids of source, target, source, ... as lists."""
    shards = [rows_of_shard(*shard) for shard in prepared.variables()]
    return [row for shard in shards for row in shard.to_list()]
