"""Prepares a corpus: tokenizes it once, into arrays that training maps.

`train/data/prepared.py` lists the files and reads them.
"""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write, write_json
from keras_transformer.text import Vocabulary
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.data.encoding import Encoder, Shard
from keras_transformer.train.data.pipeline import check_pairs
from keras_transformer.train.data.prepared import (
    FORMAT,
    SIDES,
    Prepared,
    is_prepared,
    shard_paths,
    update_checksum,
)
from keras_transformer.train.run import TrainingRun, check_free, locked
from keras_transformer.train.strategy import workers_of_tf_config

# As many as the tokenizer is trained on are in memory anyway.
_MOST_IN_MEMORY = 1_000_000


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
    if corpus.prepared is not None:
        raise InputError(
            f"{corpus.name} is prepared already. Give it to `train`, or "
            "prepare the corpus that it was prepared from."
        )
    workers = workers_of_tf_config()
    if workers > 1:
        raise InputError(
            "A corpus is prepared by one process. Received: TF_CONFIG with "
            f"{workers} workers. Unset it here, and set it for `train`."
        )
    tokenizer = None
    if init_from is not None:
        tokenizer = tokenizer_of(TrainingRun.open(init_from), corpus)
    others = [split for split in corpus.splits if split != "train"]
    _check(corpus, output, max_length)
    with _new_folder(output) as folder:
        if folder is None or any(output.glob("*")):
            raise InputError(
                f"{output} already contains other files. Choose another "
                "output, or remove it first."
            )
        _write(folder, corpus, vocab_size, max_length, tokenizer, others)
    prepared = Prepared.open(output)
    print(f"train: {prepared.statistics.describe(max_length)}")
    return prepared


def prepare_for_training(
    corpus: Corpus,
    folder: Path,
    vocab_size: int,
    max_length: int,
    tokenizer: Vocabulary | None,
) -> Prepared:
    """Prepares the split `train` alone, unless that was done before.

    If another process prepares it at this moment, this one waits. Without a
    tokenizer, one of `vocab_size` is trained.
    """
    if not is_prepared(folder):
        _check(corpus, folder, max_length)
        print(f"preparing: {corpus.name}", flush=True)
        with _new_folder(folder, wait=True) as partial:
            if partial is not None:
                _write(partial, corpus, vocab_size, max_length, tokenizer, [])
    print(f"prepared: {folder}")
    return Prepared.open(folder)


def content_name(
    corpus: Corpus,
    vocab_size: int,
    max_length: int,
    tokenizer: Vocabulary | None,
) -> str:
    """Returns a name for what `prepare_for_training` writes.

    It depends on the content of the files, not on where they are.
    """
    vocabulary = tokenizer.digest if tokenizer else vocab_size
    content = (
        FORMAT,
        corpus.task.name,
        corpus.digest("train"),
        vocabulary,
        max_length,
    )
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def tokenizer_of(past: TrainingRun, corpus: Corpus) -> Vocabulary:
    """Returns the tokenizer of a run for the same task."""
    if past.task.name != corpus.task.name:
        raise InputError(
            "A run can only be started with the tokenizer of a run for the "
            f"same task. Received: {past.path}, which is for {past.task.name}, "
            f"and {corpus.name}, which is for {corpus.task.name}"
        )
    print(f"tokenizer: {past.tokenizer.vocab_size:,} tokens, from {past.path}")
    return past.tokenizer


def _check(corpus: Corpus, output: Path, max_length: int) -> None:
    """Refuses what would fail late, before the corpus is read."""
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


@contextlib.contextmanager
def _new_folder(path: Path, wait: bool = False) -> Iterator[Path | None]:
    """Yields a temporary folder, and moves it to `path` when it is complete.

    What a process left there that was killed is removed. Yields None if
    another process has written `path` meanwhile.
    """
    path = path.absolute()  # "." has no name
    partial = path.with_name(f".partial-{path.name}")
    with locked(partial, wait):
        try:
            if is_prepared(path):
                yield None
                return
            for file in partial.iterdir():
                if file.name != "lock":
                    file.unlink()
            yield partial
            # The lock moves along: until then no other process may begin.
            os.replace(partial, path)
            (path / "lock").unlink()
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _write(
    folder: Path,
    corpus: Corpus,
    vocab_size: int,
    max_length: int,
    tokenizer: Vocabulary | None,
    text_splits: list[str],
) -> None:
    """Writes the files of a prepared corpus."""
    pairs = _ReadOnce(corpus.pairs("train"))
    source, target = map(_shorten, pairs.first)
    print(f"first pair: {source} → {target}", flush=True)
    progress = functools.partial(
        tqdm, unit="pair", unit_scale=True, disable=None
    )
    if tokenizer is None:
        print(f"tokenizer: training with {vocab_size:,} tokens", flush=True)
        reading = progress(pairs, desc="reading")
        tokenizer = corpus.task.train_tokenizer(reading, vocab_size)
    else:
        corpus.task.check_tokenizer(tokenizer, pairs)
    tokenizer.save_files(folder)

    encoder = Encoder(tokenizer, max_length, corpus.task)
    sizes, checksum = [], 0
    reading = progress(pairs, desc="tokenizing", total=pairs.total)
    for shard in encoder.shards(reading):
        _write_shard(folder, len(sizes), shard)
        sizes.append(shard.offsets.size // 2)
        checksum = update_checksum(checksum, shard)
        if pairs.total is not None:
            _check_disk(folder, pairs.total / encoder.statistics.read)
    statistics = encoder.statistics
    check_pairs(statistics.pairs, max_length)
    for split in text_splits:
        _write_texts(folder / f"{split}.tfrecord", corpus.pairs(split))
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
            "statistics": dataclasses.asdict(statistics),
            "checksum": checksum,
            "shards": sizes,
        },
    )


class _ReadOnce:
    """Pairs that are kept when they are read first, unless they are many."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._pairs = pairs
        reading = iter(pairs)
        self.first = next(reading)
        self._reading = itertools.chain([self.first], reading)
        self._kept: list[tuple[str, str]] | None = None
        self.total: int | None = None  # known when they have been read

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return self._read() if self._kept is None else iter(self._kept)

    def _read(self) -> Iterator[tuple[str, str]]:
        reading, self._reading = self._reading, None
        kept, total = [], 0
        for total, pair in enumerate(reading or self._pairs, start=1):
            if total <= _MOST_IN_MEMORY:
                kept.append(pair)
            else:
                kept = None
            yield pair
        self._kept, self.total = kept, total


def _write_shard(folder: Path, number: int, shard: Shard) -> None:
    for path, array in zip(shard_paths(folder, number), shard, strict=True):
        with atomic_write(path) as partial:
            np.save(partial, array)


def _check_disk(folder: Path, ratio: float) -> None:
    """Raises InputError if the disk is too small for `ratio` times as much."""
    size = sum(file.stat().st_size for file in folder.glob("*.npy"))
    missing, free = size * (ratio - 1), shutil.disk_usage(folder).free
    if missing > free:
        raise InputError(
            f"The prepared corpus will take about {size * ratio / 1e9:.1f} GB. "
            f"Received: a disk with {free / 1e9:.1f} GB left after "
            f"{size / 1e9:.1f} GB. Choose another output."
        )


def _write_texts(path: Path, pairs: Iterable[tuple[str, str]]) -> None:
    with atomic_write(path) as partial:
        with tf.io.TFRecordWriter(str(partial)) as writer:
            for pair in pairs:
                features = {
                    name: tf.train.Feature(
                        bytes_list=tf.train.BytesList(value=[text.encode()])
                    )
                    for name, text in zip(SIDES, pair, strict=True)
                }
                example = tf.train.Example(
                    features=tf.train.Features(feature=features)
                )
                writer.write(example.SerializeToString())


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:59] + "…")
