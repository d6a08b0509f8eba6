"""Reads a prepared corpus: the folder that `prepare` writes.

prepared.json            statistics, checksum, sizes of the shards
tokenizer.model          SentencePiece model
train-00000.ids.npy      ids of source, target, source, ..., without end tokens
train-00000.offsets.npy  where each of these texts begins, and the last one ends
valid.tfrecord           texts of another split; such as test.tfrecord
valid-00000.tfrecord     those of the first of several corpora, without tags

`train/preparation.py` writes it. The arrays are mapped into memory: the pages
that are in use are shared by all processes, and can be dropped at any time.
"""

import dataclasses
import functools
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer.support.errors import InputError
from keras_transformer.support.files import write_json
from keras_transformer.tasks import Task, find_task
from keras_transformer.text import Vocabulary, open_vocabulary
from keras_transformer.train.data.encoding import Statistics, TokenShard
from keras_transformer.train.data.filters import PairFilters
from keras_transformer.train.data.mixture import Entry
from keras_transformer.train.data.reading import Split
from keras_transformer.train.data.tfrecords import TFRecordFiles
from keras_transformer.train.recipe import Recipe

if TYPE_CHECKING:
    from keras_transformer.train.data.corpus import Corpus

FORMAT = 1
# Names of the features of the TFRecord files.
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
    tokenizer: Vocabulary
    max_length: int  # of a text, with the end token
    fixed: dict[str, Any]  # values of `Recipe` that training must have
    statistics: Statistics
    checksum: int  # 32 bits that depend on the ids and on their order
    shard_pairs: tuple[int, ...]  # number of pairs of each shard
    text_splits: tuple[str, ...]  # the other splits, whose texts are here
    # The corpora, one after the other; none if it is one.
    parts: tuple[tuple[Entry, Statistics], ...] = ()

    @classmethod
    def open(cls, path: str | os.PathLike) -> "Prepared":
        """Reads the folder of a prepared corpus, except for the ids."""
        path = Path(path)
        file = path / "prepared.json"
        try:
            values = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(
                f"{file} is not valid JSON. Received: {error}. {_ADVICE}"
            ) from error
        version = values.get("format") if isinstance(values, dict) else None
        if version != FORMAT:
            raise InputError(
                f"{file} must have format {FORMAT}. Received: "
                f"format={version!r}. It was written by another version: "
                "prepare the corpus again."
            )
        tokenizer = open_vocabulary(path)
        try:
            expected = str(values["tokenizer"])
            parts = [dict(part) for part in values.get("parts", [])]
            counted = [_statistics(part.pop("statistics")) for part in parts]
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
                    augment=float(values.get("augment", 0)),
                    typing_errors=float(values.get("typing_errors", 0)),
                ),
                statistics=_statistics(values["statistics"]),
                checksum=int(values["checksum"]),
                shard_pairs=tuple(map(int, values["shards"])),
                text_splits=tuple(map(str, values["text_splits"])),
                parts=tuple(zip(entries, counted, strict=True)),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{file} must be what `prepare` wrote. Received: {error!r}. "
                f"{_ADVICE}"
            ) from error
        prepared.task.check_vocabulary(tokenizer)
        if tokenizer.digest != expected:
            raise InputError(
                f"The tokenizer in {path} must be the one that the "
                f"corpus was prepared with, of SHA-256 {expected[:12]}. "
                f"Received: {tokenizer.digest[:12]}. {_ADVICE}"
            )
        return prepared

    def splits(self) -> dict[str, Split]:
        """Returns the splits by name, for `Corpus`."""
        return {"train": self, **self.texts()}

    def texts(self, part: int | None = None) -> dict[str, Split]:
        """Returns the splits that are texts, of one of the `parts` if any."""
        splits: dict[str, Split] = {}
        for split in self.text_splits:
            path = text_path(self.path, split, part)
            if part is None or path.exists():
                name = f"{self.path}, split {split}"
                splits[split] = TFRecordFiles(name, [str(path)], SIDES)
        return splits

    def read(self) -> Iterator[tuple[str, str]]:
        raise InputError(
            "A prepared corpus has the texts of its other splits only. "
            f"Received: {self.name}, which has token ids. Use the corpus that "
            "it was prepared from."
        )

    def digest(self) -> str:
        weights = "".join(f", {entry.weight}" for entry, _ in self.parts)
        return f"ids {self.checksum}{weights}"

    @functools.cached_property
    def shards(self) -> list[TokenShard]:
        """The ids, mapped into memory, and read once for their checksum."""
        shards = [
            TokenShard(*map(_map_array, shard_paths(self.path, number)))
            for number in range(len(self.shard_pairs))
        ]
        checksum = functools.reduce(update_checksum, shards, 0)
        if checksum != self.checksum:
            raise InputError(
                f"The ids of {self.path} must have the checksum "
                f"{self.checksum}. Received: {checksum}: files were changed. "
                f"{_ADVICE}"
            )
        # Nothing protects prepared.json.
        sizes = tuple(shard.pairs for shard in shards)
        longest = max(int(np.diff(shard.offsets).max()) + 1 for shard in shards)
        if sizes != self.shard_pairs or longest > self.max_length:
            raise InputError(
                f"{self.path} must have texts of at most {self.max_length} "
                f"tokens, in shards of {self.shard_pairs} pairs. Received: "
                f"texts of up to {longest} tokens, in shards of {sizes} pairs: "
                f"files were changed. {_ADVICE}"
            )
        return shards


def _statistics(values: dict[str, Any]) -> Statistics:
    names = [field.name for field in dataclasses.fields(Statistics)]
    # Earlier versions did not count other reasons to drop pairs.
    old = {"dropped_long", "dropped_empty"}
    new = [x for x in names if x.startswith("dropped_") and x not in old]
    counts = dict.fromkeys(new, 0) | values
    return Statistics(*(int(counts[name]) for name in names))


def _map_array(path: Path) -> np.ndarray:
    """Maps an array of a shard into memory."""
    try:
        # DLPack does not take what is read-only; "c" never writes.
        array = np.load(path, mmap_mode="c")
        # The checksum is that of the bytes, whatever they stand for.
        if array.dtype not in (np.uint16, np.int32) or array.ndim != 1:
            raise ValueError(f"{array.dtype} {array.shape}: it was changed")
    except (OSError, ValueError, EOFError) as error:
        raise InputError(
            f"{path} must be an array of ids or offsets. Received: {error}. "
            f"{_ADVICE}"
        ) from error
    return array


def update_checksum(checksum: int, shard: TokenShard) -> int:
    """Returns the CRC-32 of all shards so far and of another one."""
    for array in shard:
        checksum = zlib.crc32(array, checksum)
    return checksum


def write_shards(folder: Path, shards: Iterable[TokenShard]) -> dict[str, Any]:
    """Writes the shards, and returns what `prepared.json` has of them."""
    sizes, checksum = [], 0
    for shard in shards:
        paths = shard_paths(folder, len(sizes))
        for path, array in zip(paths, shard, strict=True):
            np.save(path, array)
        sizes.append(shard.pairs)
        checksum = update_checksum(checksum, shard)
    return {"checksum": checksum, "shards": sizes}


def write_description(
    folder: Path,
    corpus: "Corpus",
    tokenizer: Vocabulary,
    recipe: Recipe,
    filters: PairFilters,
    text_splits: Sequence[str],
    statistics: Statistics,
    shards: dict[str, Any],
    parts: Sequence[tuple[Entry, Statistics]] = (),
) -> None:
    """Writes `prepared.json`, with what `write_shards` returned."""
    variants = ("augment", "typing_errors", "seed")
    values = {
        "format": FORMAT,
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
        **shards,
        **{name: getattr(recipe, name) for name in variants},
    }
    write_json(folder / "prepared.json", values)


def is_prepared(path: str | os.PathLike) -> bool:
    """Returns whether a folder is a prepared corpus."""
    return (Path(path) / "prepared.json").exists()


def text_path(folder: Path, split: str, part: int | None = None) -> Path:
    """Returns the path of the texts of a split, or of one of its parts."""
    number = "" if part is None else f"-{part:05d}"
    return folder / f"{split}{number}.tfrecord"


def shard_paths(folder: Path, number: int) -> tuple[Path, Path]:
    """Returns the paths of ids and offsets of a shard."""
    name = f"train-{number:05d}"
    return folder / f"{name}.ids.npy", folder / f"{name}.offsets.npy"
