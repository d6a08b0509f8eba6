"""Prepared corpora without texts: ids in which each pair has its number."""

import functools
import itertools

import numpy as np

from keras_transformer.support.files import write_json
from keras_transformer.text import Tokenizer
from keras_transformer.train.data.encoding import Statistics, TokenShard
from keras_transformer.train.data.prepared import open_prepared, write_shards

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


def shard(pairs):
    """Returns the shard of pairs of ids."""
    texts = [ids for pair in pairs for ids in pair]
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    return TokenShard(np.concatenate(texts).astype(np.uint16), offsets)


def write(folder, pairs, shard_pairs=10_000):
    """Writes a prepared corpus of pairs of ids, and opens it."""
    folder.mkdir(exist_ok=True)
    tokenizer().save_files(folder)
    starts = range(0, len(pairs), shard_pairs)
    parts = (pairs[start : start + shard_pairs] for start in starts)
    num_shards = write_shards(folder, map(shard, parts))
    statistics = Statistics(
        pairs=len(pairs),
        source_tokens=sum(len(s) + 1 for s, _ in pairs),
        target_tokens=sum(len(t) + 1 for _, t in pairs),
    )
    part = dict(data=["pairs"], splits=[], source="en", target="de")
    record = dict(task="translation", max_length=MAX_LENGTH, shards=num_shards)
    record["parts"] = [{**part, "statistics": vars(statistics)}]
    write_json(folder / "prepared.json", record)
    return open_prepared(folder)


def rows(shards):
    """Returns the ids of source, target, source, ... as lists."""
    return [
        ids[begin:end].tolist()
        for ids, offsets in shards
        for begin, end in itertools.pairwise(offsets)
    ]
