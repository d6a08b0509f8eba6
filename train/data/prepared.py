"""Reads a prepared corpus: the folder that `prepare` writes.

prepared.json            parts with their statistics, number of shards
tokenizer.model          SentencePiece model, described by tokenizer.json
train-00000.ids.npy      ids of source, target, source, ..., without end tokens
train-00000.offsets.npy  begin of each text, and the end of the last
valid-00000.source       texts of a split of part 0, one per line, without tags
valid-00000.target

train/preparation.py writes it. The arrays are memory-mapped: processes share
their pages, and the system can drop them at any time.
"""

import dataclasses
import functools
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.support.errors import InputError
from keras_transformer.support.files import (
    explain_damage,
    read_json,
    reserve_disk_space,
)
from keras_transformer.tasks import Task, find_task
from keras_transformer.text import Tokenizer
from keras_transformer.train.data.encoding import Statistics, TokenShard
from keras_transformer.train.data.reading import Part, shared_language
from keras_transformer.train.data.text_files import open_two_files

FILE = "prepared.json"
_ADVICE = (
    "Restore the files, or remove the folder and prepare the corpus again."
)


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A corpus with the split `train` as token ids."""

    path: Path
    task: Task
    source: str | None  # language code, if all parts share it
    target: str | None
    tokenizer: Tokenizer
    max_length: int  # tokens of a text, with the end token
    parts: tuple[Part, ...]  # with texts of the other splits
    num_shards: int

    @classmethod
    def open(cls, path: str | os.PathLike) -> "Prepared":
        """Reads the folder of a prepared corpus, except for the ids."""
        path = Path(path)
        values = read_json(path / FILE)
        tokenizer = Tokenizer.load(path)
        try:
            parts = tuple(
                _read_part(path, number, part)
                for number, part in enumerate(values["parts"])
            )
            return cls(
                path=path,
                task=find_task(values["task"]).for_corpus(),
                source=shared_language(parts, "source"),
                target=shared_language(parts, "target"),
                tokenizer=tokenizer,
                max_length=int(values["max_length"]),
                parts=parts,
                num_shards=int(values["shards"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{path / FILE} must describe a prepared corpus. Received: "
                f"{error!r}. {_ADVICE}"
            ) from error

    @property
    def statistics(self) -> Statistics:
        """The sum over the parts."""
        return sum((part.statistics for part in self.parts), Statistics())

    @functools.cached_property
    def shards(self) -> list[TokenShard]:
        """The ids, memory-mapped."""
        return [
            TokenShard(*map(_map_array, _shard_paths(self.path, number)))
            for number in range(self.num_shards)
        ]


def _read_part(folder: Path, number: int, values: Mapping[str, Any]) -> Part:
    splits = {
        split: open_two_files(text_paths(folder, split, number))
        for split in values["splits"]
    }
    statistics = Statistics(**values["statistics"])
    return Part(**{**values, "splits": splits, "statistics": statistics})


def _map_array(path: Path) -> np.ndarray:
    with explain_damage(path, "an array of ids or offsets", _ADVICE):
        # DLPack rejects read-only arrays; "c" never writes to the file.
        return np.load(path, mmap_mode="c")


def write_shards(
    folder: Path, shards: Iterable[TokenShard], number: int = 0
) -> int:
    """Writes shards, numbered from `number` on; returns the next number."""
    for shard in shards:
        paths = _shard_paths(folder, number)
        for path, array in zip(paths, shard, strict=True):
            # NumPy does not report a full disk. A header takes 128 bytes.
            reserve_disk_space(path, 128 + array.nbytes)
            np.save(path, array)
        number += 1
    return number


def is_prepared(path: str | os.PathLike) -> bool:
    """Returns whether a folder is a prepared corpus."""
    return (Path(path) / FILE).exists()


def text_paths(folder: Path, split: str, part: int) -> list[str]:
    """Returns the paths of source and target of a split of a part."""
    name = f"{split}-{part:05d}"
    return [str(folder / f"{name}.{side}") for side in ("source", "target")]


def _shard_paths(folder: Path, number: int) -> tuple[Path, Path]:
    name = f"train-{number:05d}"
    return folder / f"{name}.ids.npy", folder / f"{name}.offsets.npy"
