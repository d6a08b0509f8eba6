"""Reads a prepared corpus: the folder that `prepare` writes.

prepared.json            statistics, number of shards
tokenizer.model          SentencePiece model
train-00000.ids.npy      ids of source, target, source, ..., without end tokens
train-00000.offsets.npy  where each of these texts begins, and the last one ends
valid.source             texts of a different split, one a line; valid.target
valid-00000.source       texts of the first of several corpora, without tags

`train/preparation.py` writes it. The arrays are mapped into memory: the pages
that are in use are shared by all processes, and can be dropped at any time.
"""

import dataclasses
import functools
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer.support.errors import InputError
from keras_transformer.support.files import (
    read_json,
    reserve_disk_space,
    write_json,
)
from keras_transformer.tasks import Task, find_task
from keras_transformer.text import Tokenizer
from keras_transformer.train.data.encoding import Statistics, TokenShard
from keras_transformer.train.data.filters import PairFilters
from keras_transformer.train.data.mixture import Entry
from keras_transformer.train.data.reading import Split
from keras_transformer.train.data.text_files import LineFiles
from keras_transformer.train.recipe import Recipe

if TYPE_CHECKING:
    from keras_transformer.train.data.corpus import Corpus

# Suffixes of the files of texts.
SIDES = ("source", "target")

_ADVICE = (
    "Restore the files, or remove the folder and prepare the corpus again."
)


@dataclasses.dataclass(kw_only=True)
class Prepared(Split):
    """The training split of a prepared corpus, as token ids."""

    path: Path
    task: Task
    source: str | None  # language codes, if they are known
    target: str | None
    tokenizer: Tokenizer
    max_length: int  # of a text, with the end token
    fixed: dict[str, Any]  # values of `Recipe` that training must have
    statistics: Statistics
    num_shards: int
    text_splits: tuple[str, ...]  # the other splits, whose texts are here
    # The corpora, one after the other; none if it is one.
    parts: tuple[tuple[Entry, Statistics], ...] = ()

    @classmethod
    def open(cls, path: str | os.PathLike) -> "Prepared":
        """Reads the folder of a prepared corpus, except for the ids."""
        path = Path(path)
        file = path / "prepared.json"
        values = read_json(file)
        tokenizer = Tokenizer.load(path)
        try:
            expected = str(values["tokenizer"])
            parts = [dict(part) for part in values["parts"]]
            counted = [Statistics(**part.pop("statistics")) for part in parts]
            entries = [Entry(**part) for part in parts]
            prepared = cls(
                f"{path}, train",
                path=path,
                task=find_task(values["task"]).for_corpus(),
                source=values["source"],
                target=values["target"],
                tokenizer=tokenizer,
                max_length=int(values["max_length"]),
                fixed=dict(
                    vocab_size=tokenizer.vocab_size,
                    max_length=int(values["max_length"]),
                ),
                statistics=Statistics(**values["statistics"]),
                num_shards=int(values["shards"]),
                text_splits=tuple(map(str, values["text_splits"])),
                parts=tuple(zip(entries, counted, strict=True)),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{file} must be what `prepare` wrote. Received: {error!r}. "
                f"{_ADVICE}"
            ) from error
        if tokenizer.digest != expected:
            raise InputError(
                f"{path} must have the tokenizer that the corpus was prepared "
                f"with. Received: a different one. {_ADVICE}"
            )
        return prepared

    def texts(self, part: int | None = None) -> dict[str, Split]:
        """Returns the splits that are texts, of one of the `parts` if any."""
        splits: dict[str, Split] = {}
        for split in self.text_splits:
            paths = text_paths(self.path, split, part)
            if part is None or paths[0].exists():
                name = f"{self.path}, split {split}"
                splits[split] = LineFiles(name, [str(path) for path in paths])
        return splits

    def read(self) -> Iterator[tuple[str, str]]:
        raise InputError(
            "A prepared corpus has the texts of its other splits only. "
            f"Received: {self.name}, which has token ids. Use the corpus that "
            "it was prepared from."
        )

    @functools.cached_property
    def shards(self) -> list[TokenShard]:
        """The ids, mapped into memory."""
        return [
            TokenShard(*map(_map_array, shard_paths(self.path, number)))
            for number in range(self.num_shards)
        ]


def _map_array(path: Path) -> np.ndarray:
    """Maps an array of a shard into memory."""
    try:
        # DLPack does not take what is read-only; "c" never writes.
        return np.load(path, mmap_mode="c")
    except (OSError, ValueError, EOFError) as error:
        raise InputError(
            f"{path} must be an array of ids or offsets. Received: {error}. "
            f"{_ADVICE}"
        ) from error


def write_shards(folder: Path, shards: Iterable[TokenShard]) -> int:
    """Writes the shards, and returns their number."""
    number = 0
    for number, shard in enumerate(shards, start=1):
        paths = shard_paths(folder, number - 1)
        for path, array in zip(paths, shard, strict=True):
            # NumPy does not say that a disk is full. A header has 128 bytes.
            reserve_disk_space(path, 128 + array.nbytes)
            np.save(path, array)
    return number


def write_description(
    folder: Path,
    corpus: "Corpus",
    tokenizer: Tokenizer,
    recipe: Recipe,
    filters: PairFilters,
    text_splits: Sequence[str],
    statistics: Statistics,
    num_shards: int,
    parts: Sequence[tuple[Entry, Statistics]] = (),
) -> None:
    """Writes `prepared.json`."""
    values = {
        "task": corpus.task.name,
        "data": corpus.name,
        "source": corpus.source,
        "target": corpus.target,
        "vocab_size": tokenizer.vocab_size,
        "max_length": recipe.max_length,
        "tokenizer": tokenizer.digest,
        "text_splits": text_splits,
        "filters": dataclasses.asdict(filters),
        "statistics": dataclasses.asdict(statistics),
        "parts": [
            {**dataclasses.asdict(entry), "statistics": dataclasses.asdict(own)}
            for entry, own in parts
        ],
        "shards": num_shards,
    }
    write_json(folder / "prepared.json", values)


def is_prepared(path: str | os.PathLike) -> bool:
    """Returns whether a folder is a prepared corpus."""
    return (Path(path) / "prepared.json").exists()


def text_paths(folder: Path, split: str, part: int | None = None) -> list[Path]:
    """Returns the paths of the sides of a split, or of one of its parts."""
    number = "" if part is None else f"-{part:05d}"
    return [folder / f"{split}{number}.{side}" for side in SIDES]


def shard_paths(folder: Path, number: int) -> tuple[Path, Path]:
    """Returns the paths of ids and offsets of a shard."""
    name = f"train-{number:05d}"
    return folder / f"{name}.ids.npy", folder / f"{name}.offsets.npy"
