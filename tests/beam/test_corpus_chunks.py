"""Chunks, duplicates, and where shards end."""

import collections

import numpy as np
import pytest
from corpora import write_lines, write_sides

from keras_transformer.beam import corpus_chunks
from keras_transformer.beam.corpus_chunks import (
    count_pairs,
    find_duplicates,
    hash_pairs,
    join_chunks,
    make_chunks,
)
from keras_transformer.support.errors import InputError
from keras_transformer.train.data import encoding
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.data.encoding import Statistics
from keras_transformer.train.data.filters import ExaminedPairs, PairFilters

PAIRS = [(f"{n % 5}", f"{n % 7}") for n in range(40)] + [("a", "b\tc")] * 3


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Two corpora that follow one another."""
    monkeypatch.setattr(corpus_chunks, "CHUNK", 8)
    files = []
    for name, pairs in (("a", PAIRS[:20]), ("b", PAIRS[20:])):
        (tmp_path / name).mkdir()
        files.append(examine(write_sides(tmp_path / name, pairs=pairs)))
    return files


def examine(names, **filters):
    corpus = open_corpus(names, "en", "de")
    filters = PairFilters(**filters)
    return ExaminedPairs(corpus.pairs("train"), filters, "en", "de")


def test_chunks_are_numbered_and_read_apart(files):
    chunks = make_chunks(files)
    assert [chunk.index for chunk in chunks] == list(range(6))
    assert [(chunk.first, chunk.size) for chunk in chunks] == [
        *((0, 8), (8, 8), (16, 4)),
        *((20, 8), (28, 8), (36, 7)),
    ]
    numbered = {
        chunk.first + row: pair
        for chunk in chunks
        for row, pair in enumerate(chunk.read())
    }
    assert numbered == {i: (*pair, "") for i, pair in enumerate(PAIRS)}


def test_a_file_that_has_become_shorter_is_found(tmp_path):
    names = write_sides(tmp_path, pairs=PAIRS)
    *_, chunk = make_chunks([examine(names)])
    for name in names:
        lines = open(name).readlines()
        open(name, "w").writelines(lines[:-1])
    with pytest.raises(InputError, match="must not change .* become 42$"):
        chunk.read()


def test_what_texts_rule_out_is_not_hashed(tmp_path):
    lines = ["a\tb\ten\tde\trest", "c\td\ten\tfr", "e\tf\ten\tde"]
    path = write_lines(tmp_path / "a.tsv", lines)
    (chunk,) = make_chunks([examine(path, language_columns=True)])
    assert [reason for _, _, reason in chunk.read()] == ["", "language", ""]
    rows = [row for _, (_, rows, _) in hash_pairs(chunk) for row in rows]
    assert sorted(rows) == [0, 2]


def test_all_but_the_first_of_equal_pairs_are_duplicates(files):
    grouped = collections.defaultdict(list)
    chunks = make_chunks(files)
    for chunk in reversed(chunks):  # workers are done in any order
        for first, hashed in hash_pairs(chunk):
            grouped[first].append(hashed)
    assert len(grouped) > 10
    duplicates = {
        chunks[index].first + row
        for first, hashed in grouped.items()
        for index, rows in find_duplicates(first, hashed)
        for row in rows
    }
    firsts = {pair: n for n, pair in reversed(list(enumerate(PAIRS)))}
    assert duplicates == set(range(len(PAIRS))) - set(firsts.values())
    assert len(duplicates) == 7


def test_what_a_separator_could_confuse_is_not_equal(tmp_path):
    pairs = [("a", "b c"), ("a b", "c"), ("a\tb", "c"), ("a", "b\tc"), ("", "")]
    names = write_sides(tmp_path, pairs=pairs)
    (chunk,) = make_chunks([examine(names)])
    hashes = np.concatenate([hashes for _, (_, _, hashes) in hash_pairs(chunk)])
    assert len(set(hashes.tolist())) == 5


def write_chunk(folder, chunk, counts, batches):
    """Writes a chunk whose texts have ids of which each is its batch."""
    numbers = [number for number, lengths in batches for _ in lengths]
    lengths = [x for _, lengths in batches for pair in lengths for x in pair]
    arrays = {
        "batches": np.array(numbers, np.int64),
        "lengths": np.array(lengths, np.int64),
        "ids": np.repeat(np.repeat(numbers, 2), lengths).astype(np.uint16),
        "counts": np.array(counts),
    }
    path = folder / f"{chunk}.npz"
    np.savez(path, **arrays)
    return path


COUNTS = [3, 1, 2, 0, 4, 5, 6, 7, 40, 50, 9]
OTHER_COUNTS = [2, 0, 1, 1, 2, 3, 4, 5, 20, 30, 11]


def test_shards_end_where_a_batch_has_filled_them(tmp_path, monkeypatch):
    """Also if the pairs of a batch are in two chunks, or all were dropped."""
    monkeypatch.setattr(encoding, "SHARD_IDS", 100)
    chunks = [  # number of each batch, and lengths of both sides of its pairs
        [(0, [(40, 20)]), (1, [(10, 5), (7, 8)])],
        [(1, [(20, 10)]), (2, [(6, 4)]), (4, [(50, 51)])],
        [],
        [(5, [(3, 3), (2, 2)])],
    ]
    paths = [
        write_chunk(tmp_path, chunk, COUNTS, batches)
        for chunk, batches in enumerate(chunks)
    ]
    shards = list(join_chunks(paths, np.uint16))
    assert [np.unique(shard.ids).tolist() for shard in shards] == [
        *([0, 1], [2, 4], [5])
    ]
    assert [np.diff(shard.offsets).tolist() for shard in shards] == [
        [40, 20, 10, 5, 7, 8, 20, 10],
        [6, 4, 50, 51],
        [3, 3, 2, 2],
    ]
    assert all(shard.ids.dtype == np.uint16 for shard in shards)
    # A corpus has a shard.
    (shard,) = join_chunks(paths[2:3], np.uint16)
    assert (shard.ids.size, shard.pairs) == (0, 0)


def test_counts_of_chunks_are_added(tmp_path):
    paths = [
        write_chunk(tmp_path, chunk, counts, [])
        for chunk, counts in enumerate([COUNTS, OTHER_COUNTS, OTHER_COUNTS])
    ]
    assert count_pairs(paths) == Statistics(
        pairs=7,
        dropped_long=1,
        dropped_empty=4,
        dropped_language=2,
        dropped_identical=8,
        dropped_letters=11,
        dropped_duplicate=14,
        dropped_ratio=17,
        source_tokens=80,
        target_tokens=110,
        longest=11,
    )
