"""Chunks, duplicates, and where shards end; test_command.py runs it all."""

import collections

import pytest
from corpora import write_lines, write_sides

from keras_transformer.support.errors import InputError
from keras_transformer.support.files import read_json
from keras_transformer.train.beam import preparing
from keras_transformer.train.beam.preparing import (
    find_duplicates,
    hash_pairs,
    make_chunks,
    plan_shards,
)
from keras_transformer.train.data import encoding
from keras_transformer.train.data.corpus import open_corpus

PAIRS = [(f"{n % 5}", f"{n % 7}") for n in range(40)] + [("a", "b\tc")] * 3


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Two corpora that follow one another."""
    monkeypatch.setattr(preparing, "CHUNK", 8)
    files = []
    for name, pairs in (("a", PAIRS[:20]), ("b", PAIRS[20:])):
        (tmp_path / name).mkdir()
        names = write_sides(tmp_path / name, pairs=pairs)
        files.append(open_corpus(names).pairs("train"))
    return files


def test_chunks_are_numbered_and_read_apart(files):
    chunks = make_chunks(files)
    assert [one.index for one in chunks] == list(range(6))
    assert [(one.first, one.size) for one in chunks] == [
        *((0, 8), (8, 8), (16, 4)),
        *((20, 8), (28, 8), (36, 7)),
    ]
    rows = [(one.first, one.read([])) for one in chunks]
    found = {first + n: pair for first, x in rows for n, pair in x.items()}
    assert found == dict(enumerate(PAIRS))


def test_a_file_that_has_become_shorter_is_found(tmp_path):
    names = write_sides(tmp_path, pairs=PAIRS)
    *_, chunk = make_chunks([open_corpus(names).pairs("train")])
    for name in names:
        lines = open(name).readlines()
        open(name, "w").writelines(lines[:-1])
    with pytest.raises(InputError, match="must not change .* become 42$"):
        chunk.read([])


def test_pairs_in_other_languages_are_not_read(tmp_path):
    lines = ["a\tb\ten\tde\trest", "c\td\ten\tfr", "e\tf\ten\tde"]
    path = write_lines(tmp_path / "a.tsv", lines)
    (chunk,) = make_chunks([open_corpus(path).pairs("train")])
    assert chunk.read(["en", "de"]) == {0: ("a", "b"), 2: ("e", "f")}
    assert len(chunk.read([])) == 3


def test_all_but_the_first_of_equal_pairs_are_duplicates(files):
    grouped = collections.defaultdict(list)
    chunks = make_chunks(files)
    for chunk in reversed(chunks):  # workers are done in any order
        for first, found in hash_pairs(chunk, []):
            grouped[first].append(found)
    assert len(grouped) > 10
    duplicates = {
        chunks[index].first + row
        for first, found in grouped.items()
        for index, rows in find_duplicates(first, found)
        for row in rows
    }
    firsts = {pair: n for n, pair in reversed(list(enumerate(PAIRS)))}
    assert duplicates == set(range(len(PAIRS))) - set(firsts.values())
    assert len(duplicates) == 7


def test_what_a_separator_could_confuse_is_not_equal(tmp_path):
    pairs = [("a", "b c"), ("a b", "c"), ("a\tb", "c"), ("a", "b\tc"), ("", "")]
    names = write_sides(tmp_path, pairs=pairs)
    (chunk,) = make_chunks([open_corpus(names).pairs("train")])
    hashes = [
        one for _, found in hash_pairs(chunk, []) for one in found[2].tolist()
    ]
    assert len(set(hashes)) == 5


def test_shards_end_where_a_batch_has_filled_them(tmp_path, monkeypatch):
    """Also if the pairs of a batch are in two chunks, or all were dropped."""
    monkeypatch.setattr(encoding, "SHARD_IDS", 100)
    counts = [3, 1, 2, 40, 50, 9, 0, 4, 5]
    other = [2, 0, 1, 20, 30, 11, 1, 2, 3]
    chunks = [  # batch, first and last pair, ids
        (1, other, [(1, 0, 4, 30), (2, 4, 5, 10), (4, 5, 6, 101)]),
        (0, counts, [(0, 0, 7, 60), (1, 7, 9, 30)]),
        (2, other, []),
        (3, counts, [(5, 0, 2, 10)]),
    ]
    assert list(plan_shards(chunks, tmp_path)) == [
        (0, [(0, 0, 7), (0, 7, 9), (1, 0, 4)]),
        (1, [(1, 4, 5), (1, 5, 6)]),
        (2, [(3, 0, 2)]),
    ]
    totals = [sum(x) for x in zip(*(c[1] for c in chunks), strict=True)]
    statistics = {
        "pairs": totals[0],
        "dropped_long": totals[1],
        "dropped_empty": totals[2],
        "source_tokens": totals[3],
        "target_tokens": totals[4],
        "longest": 11,
    }
    assert read_json(tmp_path / "plan.json") == {
        "statistics": statistics,
        "dropped": dict(language=2, duplicate=12, ratio=16),
        "shards": [13, 2, 2],
    }
    # A corpus has a shard.
    assert list(plan_shards([(0, counts, [])], tmp_path)) == [(0, [])]
