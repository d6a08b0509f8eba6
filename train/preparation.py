"""Prepares a corpus: tokenizes it once, into arrays that training maps.

`train/data/prepared.py` lists the files and reads them.
"""

import contextlib
import dataclasses
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write, write_json
from keras_transformer.train.data.batching import filter_pairs
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.data.prepared import (
    FORMAT,
    SIDES,
    Prepared,
    shard_paths,
)
from keras_transformer.train.data.reading import NUM_PARALLEL_CALLS, READ_BATCH
from keras_transformer.train.data.statistics import count_pairs, summarize
from keras_transformer.train.resume import learn_tokenizer, report_splits
from keras_transformer.train.run import TrainingRun, check_free, locked

# Ids of a shard, give or take a batch: 128 MiB with 2 bytes per id. Offsets
# in a shard fit into int32.
_SHARD_IDS = 2**26


def prepare(
    corpus: Corpus,
    output: str | os.PathLike,
    vocab_size: int,
    max_length: int,
    init_from: str | os.PathLike | None = None,
) -> Prepared:
    """Tokenizes the split `train`, and copies the texts of the other splits.

    The tokenizer is trained, and pairs are dropped, as by `train` on the
    corpus itself. The folder appears when it is complete. Memory does not
    depend on the size of the corpus.

    Args:
        corpus: From `open_corpus`.
        output: Folder to write. It must be new or empty.
        vocab_size: Size of the vocabulary; ignored with `init_from`.
        max_length: Maximum number of tokens in a text, with the end token.
            Longer pairs are dropped.
        init_from: A run whose tokenizer to use.

    Returns:
        The prepared corpus. `open_corpus` opens it with its other splits.

    Raises:
        InputError: If the input is invalid, `output` is in use, or the disk
            is too small.
    """
    output = Path(output).resolve()
    _check(corpus, output, max_length)
    past = None if init_from is None else TrainingRun.open(init_from)
    with _new_folder(output) as folder:
        total = report_splits(corpus)
        tokenizer = learn_tokenizer(corpus, vocab_size, past)
        tokenizer.save(folder / "tokenizer.model")

        def tokenize(source: tf.Tensor, target: tf.Tensor) -> tuple:
            targets = corpus.task.target_ids(tokenizer, target)
            return tokenizer.tokenize(source), targets

        values = _write_shards(
            folder, corpus, total, tokenize, tokenizer.vocab_size, max_length
        )
        text_splits = [split for split in corpus.splits if split != "train"]
        for split in text_splits:
            _write_texts(folder / f"{split}.tfrecord", corpus, split)
        # Last: a folder is prepared as soon as it has this file.
        write_json(
            folder / "prepared.json",
            {
                "format": FORMAT,
                "task": corpus.task.name,
                "data": corpus.name,
                "source": corpus.source,
                "target": corpus.target,
                "vocab_size": tokenizer.vocab_size,
                "max_length": max_length,
                "tokenizer": tokenizer.digest,
                "text_splits": text_splits,
                **values,
            },
        )
    return Prepared.open(output)


def _check(corpus: Corpus, output: Path, max_length: int) -> None:
    """Refuses what would fail late, before the corpus is read."""
    if corpus.prepared is not None:
        raise InputError(
            f"{corpus.name} is prepared already. Give it to `train`, or "
            "prepare the corpus that it was prepared from."
        )
    if "train" not in corpus.splits:
        raise InputError(
            f"Training needs a split train. Received: {corpus.name} with "
            f"{', '.join(corpus.splits)}"
        )
    if max_length < 2:
        raise InputError(
            "max_length must be at least 2, one token and the end token. "
            f"Received: max_length={max_length}"
        )
    check_free(output)
    if output.exists() and any(output.iterdir()):
        raise InputError(
            f"{output} already contains other files. Choose another output, "
            "or remove it first."
        )


@contextlib.contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """Yields a temporary folder, and moves it to `path` when it is complete.

    What a process left there that was killed is removed.
    """
    path = path.absolute()  # "." has no name
    partial = path.with_name(f".partial-{path.name}")
    with locked(partial):
        for file in partial.iterdir():
            if file.name != "lock":
                file.unlink()
        try:
            yield partial
            (partial / "lock").unlink()
            os.replace(partial, path)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _write_shards(
    folder: Path,
    corpus: Corpus,
    total: int,
    tokenize: Callable[[tf.Tensor, tf.Tensor], tuple],
    vocab_size: int,
    max_length: int,
) -> dict[str, Any]:
    """Writes the ids of the split `train`; returns what is known of them.

    Args:
        folder: The folder.
        corpus: The corpus.
        total: Number of its pairs.
        tokenize: Returns the ids of sources and targets, two int32 ragged
            tensors `[N, (T)]` without end tokens, from their texts, `[N]`.
        vocab_size: Every id is smaller.
        max_length: Maximum number of tokens in a text, with the end token.
    """
    dtype = tf.uint16 if vocab_size <= 2**16 else tf.int32

    def encode(source: tf.Tensor, target: tf.Tensor) -> tuple:
        s, t = tokenize(source, target)
        keep, _ = filter_pairs(
            s.row_lengths() + 1, t.row_lengths() + 1, max_length
        )
        kept = [tf.ragged.boolean_mask(ids, keep) for ids in (s, t)]
        # [2 * kept, (T)]: source, target, source, ...
        rows = tf.stack(kept, axis=1).values
        ids = tf.cast(rows.values, dtype)
        return count_pairs(s, t, max_length), ids, rows.row_lengths()

    batches = corpus.pairs("train").batch(READ_BATCH)
    batches = batches.map(encode, NUM_PARALLEL_CALLS).prefetch(2)
    shards = _Shards(folder)
    parts = []
    with tqdm(total=total, unit="pair", unit_scale=True, disable=None) as bar:
        for number, batch in enumerate(batches.as_numpy_iterator(), start=1):
            counts, ids, lengths = batch
            parts.append(counts)
            shards.add(ids, lengths)
            done = min(number * READ_BATCH, total)
            shards.check_disk(total / done)
            bar.update(done - bar.n)
    shards.close()
    statistics = summarize(parts)
    print(f"train: {statistics.describe(max_length)}")
    if not statistics.pairs:
        raise InputError(
            "No pair is left to train on. Increase max_length, or check the "
            f"data. Received: max_length={max_length}"
        )
    return {
        "statistics": dataclasses.asdict(statistics),
        "checksum": shards.checksum,
        "shards": shards.pairs,
    }


class _Shards:
    """Writes ids, a shard at a time.

    Args:
        folder: Where to write.

    Attributes:
        pairs: Number of pairs of each shard so far.
        checksum: CRC-32 of the lengths and ids so far.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clear()
        self.pairs: list[int] = []
        self.checksum = 0

    def check_disk(self, ratio: float) -> None:
        """Raises InputError if the disk is too small for the rest.

        Args:
            ratio: How many times what was added there will be.
        """
        if self._size or not self.pairs:
            return  # only after a shard was written: it costs a system call
        size = sum(file.stat().st_size for file in self._folder.glob("*.npy"))
        missing, free = size * (ratio - 1), shutil.disk_usage(self._folder).free
        if missing > free:
            raise InputError(
                f"The prepared corpus will take about {size * ratio / 1e9:.1f} "
                f"GB. Received: a disk with {free / 1e9:.1f} GB left after "
                f"{size / 1e9:.1f} GB. Choose another output."
            )

    def add(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        """Adds texts: their ids one after the other, and their lengths."""
        self._ids.append(ids)
        self._lengths.append(lengths)
        self._size += ids.size
        if self._size >= _SHARD_IDS:
            self._write()

    def close(self) -> None:
        """Writes what is left."""
        if self._size:
            self._write()

    def _write(self) -> None:
        ids, lengths = map(np.concatenate, (self._ids, self._lengths))
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        paths = shard_paths(self._folder, len(self.pairs))
        for path, array in zip(paths, (ids, offsets), strict=True):
            self.checksum = zlib.crc32(array, self.checksum)
            with atomic_write(path) as partial:
                np.save(partial, array)
        self.pairs.append(lengths.size // 2)
        self._clear()

    def _clear(self) -> None:
        self._ids: list[np.ndarray] = []
        self._lengths: list[np.ndarray] = []
        self._size = 0


def _write_texts(path: Path, corpus: Corpus, split: str) -> None:
    corpus.check(split)
    with atomic_write(path) as partial:
        with tf.io.TFRecordWriter(str(partial)) as writer:
            for pair in corpus.pairs(split).as_numpy_iterator():
                features = {
                    name: tf.train.Feature(
                        bytes_list=tf.train.BytesList(value=[text])
                    )
                    for name, text in zip(SIDES, pair, strict=True)
                }
                example = tf.train.Example(
                    features=tf.train.Features(feature=features)
                )
                writer.write(example.SerializeToString())
