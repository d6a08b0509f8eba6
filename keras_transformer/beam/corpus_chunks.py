"""The pipeline that prepares a corpus: from chunks of texts to shards of ids.

Workers read their chunks from the files of the corpus, and write the ids into
a work folder; only numbers pass through the pipeline. A file in this folder is
complete, and the same whichever worker writes it, so that a job that is resumed
keeps it. Neither TensorFlow nor Keras is imported here.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np

from keras_transformer.beam.beam_files import create_file
from keras_transformer.support.errors import InputError
from keras_transformer.text import open_vocabulary
from keras_transformer.train.data import encoding
from keras_transformer.train.data.encoding import Statistics, TokenShard
from keras_transformer.train.data.filters import ExaminedPairs, hash_pair

# Pairs that a worker tokenizes at a time.
CHUNK = 4_096


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Successive pairs of the corpus."""

    index: int
    first: int  # number of the first pair in the corpus
    size: int
    examined: ExaminedPairs  # which start with that pair

    def read(self) -> list[tuple[str, str, str]]:
        """Returns its pairs, with the reasons of their texts to drop them."""
        pairs = list(itertools.islice(self.examined, self.size))
        if len(pairs) < self.size:
            files = self.examined.split
            raise InputError(
                "A corpus must not change while it is prepared. Received: "
                f"{files.name}, of which {self.size} lines from line "
                f"{files.first_line} on have become {len(pairs)}"
            )
        return pairs

    def path(self, work: Path) -> Path:
        """Returns where the chunk is tokenized, in the work folder."""
        return work / f"chunk-{self.index:07d}.npz"


def make_chunks(corpus_files: Iterable[ExaminedPairs]) -> list[Chunk]:
    """Returns the chunks of files that follow one another."""
    chunks: list[Chunk] = []
    first = 0
    for files in corpus_files:
        for part, size in files.split.parts(CHUNK):
            examined = dataclasses.replace(files, split=part)
            chunks.append(Chunk(len(chunks), first, size, examined))
            first += size
    return chunks


def tokenize_chunks(
    chunks: beam.PCollection,
    folder: Path,
    work: Path,
    max_length: int,
    deduplicate: bool,
) -> beam.PCollection:
    """Adds a step to a pipeline: the ids of each chunk are written to its file.

    The tokenizer is in the folder, the files of chunks in the work folder.
    """
    chunks |= "Spread chunks" >> beam.Reshuffle()
    parts = {"chunks": chunks | beam.WithKeys(lambda chunk: chunk.index)}
    if deduplicate:
        parts["duplicates"] = (
            chunks
            | beam.FlatMap(hash_pairs)
            | "Group equal hashes" >> beam.GroupByKey()
            | beam.FlatMapTuple(find_duplicates)
        )
    tokenize = beam.ParDo(_TokenizeChunk(folder, work, max_length))
    return parts | beam.CoGroupByKey() | beam.Values() | tokenize


# === Duplicates ===


def hash_pairs(
    chunk: Chunk,
) -> Iterator[tuple[int, tuple[int, np.ndarray, np.ndarray]]]:
    """Hashes the pairs of a chunk, grouped by the first byte of the hashes.

    Yields such a byte, and with it the index of the chunk, the rows of the k
    pairs whose hashes start with it, int32 `[k]`, and the hashes, S16 `[k]`.
    """
    pairs = chunk.read()
    rows = np.flatnonzero([not reason for _, _, reason in pairs])
    rows = rows.astype(np.int32)
    digests = b"".join(hash_pair(*pairs[row][:2]) for row in rows)
    hashes = np.frombuffer(digests, "S16")
    first_bytes = np.frombuffer(digests, np.uint8)[::16]
    for first in np.unique(first_bytes):
        selected = first_bytes == first
        yield int(first), (chunk.index, rows[selected], hashes[selected])


def find_duplicates(
    first: int, hashed: Iterable[tuple[int, np.ndarray, np.ndarray]]
) -> Iterator[tuple[int, np.ndarray]]:
    """Yields the index of a chunk, and the rows of its duplicates, int32 `[k]`.

    They are all but the first pair with each hash. `hashed` has what
    `hash_pairs` yields for one first byte.
    """
    del first
    in_order = sorted(hashed, key=lambda of_chunk: of_chunk[0])
    hashes = np.concatenate([hashes for _, _, hashes in in_order])
    is_duplicate = np.ones(hashes.size, bool)
    is_duplicate[np.unique(hashes, return_index=True)[1]] = False
    for index, rows, _ in in_order:
        selected, is_duplicate = np.split(is_duplicate, [rows.size])
        if selected.any():
            yield index, rows[selected]


# === Tokens ===


class _TokenizeChunk(beam.DoFn):
    """Writes the ids of a chunk, unless an earlier start has done so."""

    def __init__(self, folder: Path, work: Path, max_length: int) -> None:
        self._folder, self._work = folder, work
        self._max_length = max_length

    def setup(self) -> None:
        self._tokenizer = open_vocabulary(self._folder)

    def process(self, element):
        (chunk,) = element["chunks"]
        duplicates = itertools.chain(*element.get("duplicates", ()))
        path = chunk.path(self._work)
        if not path.exists():
            arrays = self._arrays(chunk, duplicates)
            with create_file(str(path), str(self._work)) as file:
                np.savez(file, **arrays)

    def _arrays(
        self, chunk: Chunk, duplicates: Iterable[int]
    ) -> dict[str, np.ndarray]:
        """Returns the content of the file of a chunk that keeps k pairs.

        - `ids`: those of source, target, source, ...
        - `lengths`: numbers of these ids, `[2 * k]`.
        - `batches`: the batch of `prepare` that each pair is in, `[k]`.
        - `counts`: the fields of `Statistics`.
        """
        tokenizer, max_ratio = self._tokenizer, chunk.examined.filters.max_ratio
        encoder = encoding.PairEncoder(
            tokenizer, self._max_length, max_ratio=max_ratio
        )
        pairs = chunk.read()
        for row in duplicates:
            pairs[row] = (*pairs[row][:2], "duplicate")
        tokenizer.check_languages(source for source, _, x in pairs if not x)
        ids, lengths, kept = encoder.encode(pairs)
        return {
            "batches": (chunk.first + np.array(kept, int)) // encoding.BATCH,
            "ids": ids,
            "lengths": lengths,
            "counts": np.array(dataclasses.astuple(encoder.statistics)),
        }


# === Shards ===


def count_pairs(paths: Iterable[Path]) -> Statistics:
    """Returns the statistics of all chunks."""
    rows = []
    for path in paths:
        with np.load(path) as arrays:
            rows.append(arrays["counts"])
    names = [field.name for field in dataclasses.fields(Statistics)]
    totals = np.sum(rows, axis=0)
    longest = names.index("longest")
    totals[longest] = np.max(rows, axis=0)[longest]
    return Statistics(*totals.tolist())


def join_chunks(paths: Iterable[Path], dtype: Any) -> Iterator[TokenShard]:
    """Yields the shards that `prepare` would make of the pairs of chunks."""
    return encoding.make_shards(_read_batches(paths), dtype)


def _read_batches(paths: Iterable[Path]) -> Iterator[encoding.Texts]:
    """Yields ids and lengths of each batch of `prepare`, also across chunks."""
    parts = itertools.chain.from_iterable(map(_read_parts, paths))
    for _, batch in itertools.groupby(parts, key=lambda part: part[0]):
        _, ids, lengths = zip(*batch, strict=True)
        yield np.concatenate(ids), np.concatenate(lengths)


def _read_parts(path: Path) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yields the number, ids and lengths of each batch in a chunk."""
    with np.load(path) as arrays:
        ids, lengths, numbers = map(arrays.get, ("ids", "lengths", "batches"))
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))  # of batches
    first_ids = np.cumsum([0, *lengths])[2 * starts]
    yield from zip(
        numbers[starts],
        np.split(ids, first_ids[1:]),
        np.split(lengths, 2 * starts[1:]),
        strict=False,  # `split` returns an array of no pairs, too
    )
