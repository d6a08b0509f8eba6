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

from keras_transformer.support import files
from keras_transformer.support.errors import InputError, explain_damage
from keras_transformer.tasks import find_task
from keras_transformer.text import Tokenizer
from keras_transformer.train.data.corpus_files import open_two_files
from keras_transformer.train.data.encoding import Statistics, TokenShard
from keras_transformer.train.data.reading import Corpus, CorpusEntry, Part

FILE = "prepared.json"
_ADVICE = (
    "Restore the files, or remove the folder and prepare the corpus again."
)


@dataclasses.dataclass(frozen=True)
class PreparedCorpus(Corpus):
    """A corpus with the split `train` as token ids."""

    tokenizer: Tokenizer
    max_length: int  # tokens of a text, with the end token
    num_shards: int

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.name)

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits; `"train"` has ids instead of texts."""
        return ("train", *super().splits)

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of `open_corpus` by name."""
        data = [os.path.abspath(self.name)]
        entry = CorpusEntry(data=data, source=self.source, target=self.target)
        return entry.arguments()

    @property
    def statistics(self) -> Statistics:
        """The sum over the parts."""
        return sum((part.statistics for part in self.parts), Statistics())

    @functools.cached_property
    def shards(self) -> list[TokenShard]:
        """The ids, memory-mapped."""
        shards = []
        for number in range(self.num_shards):
            ids, offsets = _shard_paths(self.path, number)
            shards.append(TokenShard(_map_array(ids), _map_array(offsets)))
        return shards


def open_prepared(
    path: str | os.PathLike,
    source: str | None = None,
    target: str | None = None,
) -> PreparedCorpus:
    """Returns the corpus in a folder; the ids are read when they are needed.

    Source and target are the languages of texts whose languages are unknown.

    Raises:
        InputError: If the folder is damaged, or has different languages.
    """
    folder = Path(path)
    languages = {"source": source, "target": target}
    values = files.read_json(folder / FILE)
    tokenizer = Tokenizer.load(folder)
    expected = "the description of a prepared corpus"
    with explain_damage(folder / FILE, expected, _ADVICE):
        corpus = PreparedCorpus(
            name=os.fspath(path),
            task=find_task(values["task"]).for_corpus(),
            parts=[
                _read_part(folder, number, {**languages, **part})
                for number, part in enumerate(values["parts"])
            ],
            tokenizer=tokenizer,
            max_length=int(values["max_length"]),
            num_shards=int(values["shards"]),
        )
    received = (source or corpus.source, target or corpus.target)
    if received != (corpus.source, corpus.target):
        raise InputError(
            f"{folder} was prepared for {corpus.source} to {corpus.target}. "
            f"Received: source={source!r}, target={target!r}"
        )
    return corpus


def _read_part(folder: Path, number: int, values: Mapping[str, Any]) -> Part:
    splits = {
        split: open_two_files(text_paths(folder, split, number))
        for split in values["splits"]
    }
    statistics = Statistics(**values["statistics"])
    return Part(**{**values, "splits": splits, "statistics": statistics})


def _map_array(path: Path) -> np.ndarray:
    with explain_damage(path, "an array of ids or offsets", _ADVICE):
        return np.load(path, mmap_mode="r")


def write_shards(
    folder: Path, shards: Iterable[TokenShard], number: int = 0
) -> int:
    """Writes shards, numbered from `number` on; returns the next number."""
    for shard in shards:
        paths = _shard_paths(folder, number)
        for path, array in zip(paths, shard, strict=True):
            with files.atomic_write(path) as partial:
                # NumPy does not report a full disk. A header takes 128 bytes.
                files.reserve_disk_space(partial, 128 + array.nbytes)
                np.save(partial, array)
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
