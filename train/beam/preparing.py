"""The pipeline that prepares a corpus: chunks of texts to shards of ids.

Workers read what they need from the files, and write what they have done into
a work folder; only numbers pass through the pipeline. A file there is complete,
and the same whichever worker writes it, so that it is kept when the pipeline
is started again. Neither TensorFlow nor Keras is imported here.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import apache_beam as beam
import numpy as np

from keras_transformer.support.errors import InputError
from keras_transformer.support.files import sync
from keras_transformer.text import open_vocabulary
from keras_transformer.train.data import encoding
from keras_transformer.train.data.encoding import (
    Statistics,
    ids_dtype,
    make_shard,
)
from keras_transformer.train.data.prepared import shard_paths
from keras_transformer.train.data.text_files import TextFiles

# Pairs that a worker tokenizes at a time.
CHUNK = 4_096
# Reasons to drop a pair that `Statistics` does not count.
REASONS = ("language", "duplicate", "ratio")
PLAN_FILE = "plan.json"


@dataclasses.dataclass(frozen=True)
class Filters:
    """Which pairs are kept, tested in this order."""

    languages: list[str]  # what columns 3 and 4 of a TSV file are; or empty
    deduplicate: bool  # the first of equal pairs is kept
    max_length: int  # of tokens with the end token, as in `prepare`
    max_ratio: float | None  # of these, the longer side to the shorter one

    @property
    def beyond_prepare(self) -> bool:
        """Whether there are others than those of `prepare`."""
        others = self.languages, self.deduplicate, self.max_ratio is not None
        return any(others)


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Successive pairs of the corpus."""

    index: int
    first: int  # number of the first pair in the corpus
    size: int
    files: TextFiles  # which start with that pair

    def read(self, languages: list[str]) -> dict[int, tuple[str, str]]:
        """Returns the pairs in these languages, by their row in the chunk.

        Args:
            languages: What columns 3 and 4 must be; empty: any.

        Raises:
            InputError: If a line is invalid, or the file has become shorter.
        """
        files = self.files
        lines = files.columns(4) if languages else files.read()
        pairs = list(itertools.islice(lines, self.size))
        if len(pairs) < self.size:
            raise InputError(
                "A corpus must not change while it is prepared. Received: "
                f"{files.name}, of which {self.size} lines from line "
                f"{files.first_line} on have become {len(pairs)}"
            )
        return {
            row: (source, target)
            for row, (source, target, *tags) in enumerate(pairs)
            if tags == languages
        }


def make_chunks(files: Iterable[TextFiles]) -> list[Chunk]:
    """Returns the chunks of files that follow one another."""
    chunks: list[Chunk] = []
    first = 0
    for one in files:
        for part, size in one.parts(CHUNK):
            chunks.append(Chunk(len(chunks), first, size, part))
            first += size
    return chunks


class PrepareChunks(beam.PTransform):
    """Makes the shards of a corpus from its chunks, and `PLAN_FILE`.

    Args:
        folder: Where the shards are written, and the tokenizer is.
        work: The work folder.
        filters: Which pairs are kept.
    """

    def __init__(self, folder: Path, work: Path, filters: Filters) -> None:
        super().__init__()
        self.folder, self.work, self.filters = folder, work, filters

    def expand(self, chunks: beam.PCollection) -> beam.PCollection:
        chunks |= "Spread chunks" >> beam.Reshuffle()
        keyed = chunks | beam.WithKeys(lambda chunk: chunk.index)
        parts = {"chunks": keyed}
        if self.filters.deduplicate:
            parts["duplicates"] = (
                chunks
                | beam.FlatMap(hash_pairs, self.filters.languages)
                | "Group equal hashes" >> beam.GroupByKey()
                | beam.FlatMapTuple(find_duplicates)
            )
        return (
            parts
            | beam.CoGroupByKey()
            | beam.Values()
            | beam.ParDo(_TokenizeChunk(self))
            | beam.combiners.ToList()
            | beam.FlatMap(plan_shards, self.work)
            | "Spread shards" >> beam.Reshuffle()
            | beam.Map(write_shard, self.folder, self.work)
        )


# === Duplicates ===


def hash_pairs(
    chunk: Chunk, languages: list[str]
) -> Iterator[tuple[int, tuple[int, np.ndarray, np.ndarray]]]:
    """Hashes the pairs of a chunk, grouped by the first byte of the hashes.

    Args:
        chunk: The chunk, with n pairs in these languages.
        languages: As of `Chunk.read`.

    Yields:
        A first byte; and with it the index of the chunk, the rows of the k
        pairs whose hashes start with it, int32 `[k]`, and these, S16 `[k]`.
    """
    pairs = chunk.read(languages)
    rows = np.array(list(pairs), np.int32)
    # No text has a line end.
    digests = b"".join(
        hashlib.blake2b("\n".join(pair).encode(), digest_size=16).digest()
        for pair in pairs.values()
    )
    firsts = np.frombuffer(digests, np.uint8)[::16]
    for first in np.unique(firsts):
        these = firsts == first
        hashes = np.frombuffer(digests, "S16")[these]
        yield int(first), (chunk.index, rows[these], hashes)


def find_duplicates(
    first: int, found: Iterable[tuple[int, np.ndarray, np.ndarray]]
) -> Iterator[tuple[int, np.ndarray]]:
    """Finds all but the first pair with each hash.

    Args:
        first: The byte that the hashes start with.
        found: What `hash_pairs` has yielded with it, in any order.

    Yields:
        The index of a chunk, and the rows of its duplicates, int32 `[k]`.
    """
    del first
    found = sorted(found, key=lambda one: one[0])
    hashes = np.concatenate([one[2] for one in found])
    is_duplicate = np.ones(hashes.size, bool)
    is_duplicate[np.unique(hashes, return_index=True)[1]] = False
    for index, rows, _ in found:
        these, is_duplicate = np.split(is_duplicate, [rows.size])
        if these.any():
            yield index, rows[these]


# === Tokens ===


class _TokenizeChunk(beam.DoFn):
    """Writes the ids of a chunk, and yields what `plan_shards` needs."""

    def __init__(self, job: PrepareChunks) -> None:
        self._folder, self._work = job.folder, job.work
        self._filters = job.filters

    def setup(self) -> None:
        self._tokenizer = open_vocabulary(self._folder)

    def process(self, element):
        (chunk,) = element["chunks"]
        duplicates = itertools.chain(*element.get("duplicates", ()))
        path = chunk_path(self._work, chunk.index)
        if not path.exists():
            with _new_file(path, self._work) as file:
                np.savez(file, **self._tokenize(chunk, duplicates))
        with np.load(path) as written:
            batches = written["numbers"] // encoding.BATCH
            sizes = written["lengths"].reshape(-1, 2).sum(axis=1)
            counts = written["counts"].tolist()
        places = np.flatnonzero(np.diff(batches, prepend=-1)).tolist()
        spans = [
            (int(batches[begin]), begin, end, int(sizes[begin:end].sum()))
            for begin, end in itertools.pairwise([*places, batches.size])
        ]
        yield chunk.index, counts, spans

    def _tokenize(
        self, chunk: Chunk, duplicates: Iterable[int]
    ) -> dict[str, np.ndarray]:
        filters, tokenizer = self._filters, self._tokenizer
        pairs = chunk.read(filters.languages)
        dropped = [chunk.size - len(pairs), 0]
        for row in duplicates:
            del pairs[row]
            dropped[1] += 1
        sides = list(zip(*pairs.values(), strict=True)) or [(), ()]
        rows = zip(
            tokenizer.source.encode(sides[0]),
            tokenizer.target.encode(sides[1]),
            strict=True,
        )
        rows = list(itertools.chain.from_iterable(rows))
        lengths = np.array(list(map(len, rows)), np.int64)
        ids = itertools.chain.from_iterable(rows)
        ids = np.fromiter(ids, ids_dtype(tokenizer), lengths.sum())
        statistics = Statistics()
        keep = statistics.count(lengths, filters.max_length, filters.max_ratio)
        dropped.append(len(pairs) - statistics.read)
        both = np.repeat(keep, 2)
        return {
            "numbers": chunk.first + np.array(list(pairs), np.int64)[keep],
            "ids": ids[np.repeat(both, lengths)],
            "lengths": lengths[both],
            "counts": np.array([*dataclasses.astuple(statistics), *dropped]),
        }


def plan_shards(
    chunks: list[tuple], work: Path
) -> Iterator[tuple[int, list[tuple[int, int, int]]]]:
    """Assigns pairs to shards, and writes sizes and statistics to `PLAN_FILE`.

    A shard ends where `prepare` ends it: after the first batch with which it
    has enough ids.

    Args:
        chunks: Of each chunk, in any order: its index; the fields of
            `Statistics` and the counts of `REASONS`; and for each batch of
            `prepare` with pairs of the chunk, its number, the first of these
            pairs and the one after the last, counted in the chunk as written,
            and the number of their ids.
        work: The work folder.

    Yields:
        The number of a shard, and its spans: the index of a chunk, a first
        pair, and the one after the last.
    """
    chunks.sort()
    counts = np.array([counts for _, counts, _ in chunks])
    totals = counts.sum(axis=0).tolist()
    names = [field.name for field in dataclasses.fields(Statistics)]
    longest = names.index("longest")
    totals[longest] = int(counts[:, longest].max())
    shards: list[list[tuple[int, int, int]]] = [[]]
    size = 0
    spans = ((index, *span) for index, _, found in chunks for span in found)
    for _, batch in itertools.groupby(spans, key=lambda span: span[1]):
        if size >= encoding.SHARD_IDS:
            shards.append([])
            size = 0
        for index, _, begin, end, ids in batch:
            shards[-1].append((index, begin, end))
            size += ids
    statistics = dict(zip(names, totals, strict=False))
    plan = {
        "statistics": statistics,
        "dropped": dict(zip(REASONS, totals[len(names) :], strict=True)),
        "shards": [sum(end - begin for _, begin, end in x) for x in shards],
    }
    with _new_file(work / PLAN_FILE, work) as file:
        file.write(json.dumps(plan).encode())
    yield from enumerate(shards)


# === Shards ===


def write_shard(
    shard: tuple[int, list[tuple[int, int, int]]], folder: Path, work: Path
) -> None:
    """Writes a shard of `plan_shards` from the chunks."""
    number, spans = shard
    ids: list[np.ndarray] = []
    lengths: list[np.ndarray] = []
    for index, group in itertools.groupby(spans, key=lambda span: span[0]):
        (_, begin, end), *others = group
        end = others[-1][2] if others else end
        with np.load(chunk_path(work, index)) as written:
            of_chunk = written["lengths"]
            places = np.cumsum([0, *of_chunk])[[2 * begin, 2 * end]]
            ids.append(written["ids"][slice(*places)])
            lengths.append(of_chunk[2 * begin : 2 * end])
    arrays = make_shard(ids, lengths, ids_dtype(open_vocabulary(folder)))
    for path, array in zip(shard_paths(folder, number), arrays, strict=True):
        with _new_file(path, work) as file:
            np.save(file, array)


def chunk_path(work: Path, index: int) -> Path:
    """Returns the path of a chunk that is tokenized."""
    return work / f"chunk-{index:07d}.npz"


@contextlib.contextmanager
def _new_file(path: Path, work: Path) -> Iterator[BinaryIO]:
    """Opens a file that is at `path` when it is complete.

    Unlike with `atomic_write`, several workers may write the same one.
    """
    partial = work / uuid.uuid4().hex
    with open(partial, "wb") as file:
        yield file
    sync(partial)
    os.replace(partial, path)
