"""Reads a prepared corpus: the folder that `prepare` writes.

prepared.json            statistics, checksum, sizes of the shards
tokenizer.model          SentencePiece model
train-00000.ids.npy      ids of source, target, source, ..., without end tokens
train-00000.offsets.npy  where each of these texts begins, and the last one ends
valid.tfrecord           texts of another split; such as test.tfrecord

`train/preparation.py` writes it. The arrays are mapped into memory: the pages
that are in use are shared by all processes, and can be dropped at any time.
"""

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.support.errors import InputError
from keras_transformer.tasks import Task, find_task
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.train.data.statistics import Statistics
from keras_transformer.train.data.tfrecords import TFRecordFiles

FORMAT = 1
# Names of the features of the TFRecord files.
SIDES = ("source", "target")


@dataclasses.dataclass(frozen=True)
class Prepared:
    """The training split of a prepared corpus, as token ids.

    Args:
        path: The folder.
        task: What the pairs are for.
        source: Language code of the source, or None if it is unknown.
        target: Language code of the target, or None.
        tokenizer: The tokenizer of the ids.
        max_length: Maximum number of tokens in a text, with the end token.
        statistics: What is in the split, and what was dropped.
        checksum: 32 bits that depend on the ids and on their order.
        shards: Number of pairs of each shard.
        text_splits: Names of the other splits, whose texts are in the folder.
    """

    path: Path
    task: Task
    source: str | None
    target: str | None
    tokenizer: Tokenizer
    max_length: int
    statistics: Statistics
    checksum: int
    shards: tuple[int, ...]
    text_splits: tuple[str, ...]

    @classmethod
    def open(cls, path: str | os.PathLike) -> "Prepared":
        """Reads the folder of a prepared corpus.

        Raises:
            InputError: If it is damaged, or was written by another version.
        """
        path = Path(path)
        values = _read_json(path / "prepared.json")
        tokenizer = Tokenizer.load(path / "tokenizer.model")
        digest = tokenizer.digest
        if digest != values["tokenizer"]:
            raise InputError(
                f"{path / 'tokenizer.model'} must be the tokenizer that the "
                f"corpus was prepared with, of SHA-256 "
                f"{values['tokenizer'][:12]}. Received: {digest[:12]}. Restore "
                "the right file."
            )
        prepared = cls(
            path,
            find_task(values["task"]).for_corpus(),
            values["source"],
            values["target"],
            tokenizer,
            values["max_length"],
            Statistics(**values["statistics"]),
            values["checksum"],
            tuple(values["shards"]),
            tuple(values["text_splits"]),
        )
        prepared.lengths()  # refuses shards that are missing or damaged
        return prepared

    def recipe_values(self) -> dict[str, int]:
        """Returns the fields of `Recipe` that the preparation has fixed."""
        return {
            "vocab_size": self.tokenizer.vocab_size,
            "max_length": self.max_length,
        }

    def check_recipe(self, vocab_size: int, max_length: int) -> None:
        """Raises InputError if a recipe has other values."""
        given = {"vocab_size": vocab_size, "max_length": max_length}
        fixed = self.recipe_values()
        if given != fixed:
            raise InputError(
                f"{self.path} was prepared with "
                f"{', '.join(f'{k}={v}' for k, v in fixed.items())}, which is "
                "the default. Received: "
                f"{', '.join(f'{k}={v}' for k, v in given.items())}"
            )

    def splits(self) -> dict[str, "TrainingIds | TFRecordFiles"]:
        """Returns the splits by name, for `Corpus`."""
        splits: dict[str, Any] = {"train": TrainingIds(f"{self.path}, train")}
        for split in self.text_splits:
            splits[split] = TFRecordFiles(
                f"{self.path}, split {split}",
                [str(self.path / f"{split}.tfrecord")],
                *SIDES,
            )
        return splits

    def lengths(self) -> np.ndarray:
        """Returns the tokens of the longer side of each pair, `[pairs]`.

        The end token is counted.

        Raises:
            InputError: If a shard is missing or damaged.
        """
        # At most 2 bytes per pair, as a rule.
        dtype = np.min_scalar_type(self.max_length)
        found = []
        for number, pairs in enumerate(self.shards):
            ids, offsets = self._arrays(number)
            lengths = np.diff(offsets)
            if lengths.size != 2 * pairs or offsets[-1] != ids.size:
                raise InputError(
                    f"Shard {number} of {self.path} must have {pairs:,} pairs. "
                    f"Received: {lengths.size / 2:,} pairs and {ids.size:,} "
                    "ids. Restore the files, or prepare the corpus again."
                )
            # TensorFlow does not check them: it would read other memory.
            shortest, longest = lengths.min(), lengths.max()
            if offsets[0] or shortest < 0 or longest >= self.max_length:
                raise InputError(
                    f"The texts in shard {number} of {self.path} must begin at "
                    f"0 and have 0 to {self.max_length - 1:,} ids. Received: "
                    f"begin {offsets[0]:,}, {shortest:,} to {longest:,} ids. "
                    "Restore the files, or prepare the corpus again."
                )
            longer = lengths.reshape(-1, 2).max(axis=1) + 1
            found.append(longer.astype(dtype))
        return np.concatenate(found)

    def variables(self) -> list[tuple[tf.Variable, tf.Variable]]:
        """Returns ids and offsets of each shard, in the memory of the files.

        Nothing is read before it is used. Take their `read_value()`: other
        operations of a variable may copy it.
        """
        return [
            tuple(map(_as_variable, self._arrays(number)))
            for number in range(len(self.shards))
        ]

    def _arrays(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns ids and offsets of a shard, mapped into memory."""
        arrays = []
        for path in shard_paths(self.path, number):
            try:
                # DLPack does not take what is read-only; "c" never writes.
                arrays.append(np.load(path, mmap_mode="c"))
            except (OSError, ValueError, EOFError) as error:
                raise InputError(
                    f"{path} must be an array of NumPy. Received: {error}. "
                    "Restore the file, or prepare the corpus again."
                ) from error
        ids, offsets = arrays
        return ids, offsets


class TrainingIds:
    """The split `train` of a prepared corpus, which has no texts.

    Args:
        name: Name of the split in messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def dataset(self, index: int, count: int) -> tf.data.Dataset:
        """Raises InputError."""
        raise InputError(
            "A prepared corpus has the texts of its other splits only. "
            f"Received: {self.name}, which has token ids. Use the corpus that "
            "it was prepared from."
        )

    def read(self) -> Iterator[tuple[str, str]]:
        """Raises InputError."""
        return iter(self.dataset(0, 1))


def is_prepared(path: str | os.PathLike) -> bool:
    """Returns whether a folder is a prepared corpus."""
    return (Path(path) / "prepared.json").exists()


def shard_paths(folder: Path, number: int) -> tuple[Path, Path]:
    """Returns the paths of ids and offsets of a shard."""
    name = f"train-{number:05d}"
    return folder / f"{name}.ids.npy", folder / f"{name}.offsets.npy"


def rows_of_shard(ids: tf.Variable, offsets: tf.Variable) -> tf.RaggedTensor:
    """Returns the ids of each text of a shard, `[2 * pairs, (T)]`.

    Row `2 * i` is the source of pair `i` of the shard, the next row its
    target.
    """
    return tf.RaggedTensor.from_row_splits(
        ids.read_value(), offsets.read_value(), validate=False
    )


def _as_variable(array: np.ndarray) -> tf.Variable:
    """Returns a variable in the memory of an array.

    `tf.constant` copies an array, and `tf.data` each tensor that its functions
    use.
    """
    with tf.device("/CPU:0"):
        tensor = tf.experimental.dlpack.from_dlpack(array.__dlpack__())
        return tf.Variable(tensor, trainable=False)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise InputError(
            f"{path} is not valid JSON. Received: {error}. Prepare the corpus "
            "again."
        ) from error
    found = values.get("format") if isinstance(values, dict) else None
    if found != FORMAT:
        raise InputError(
            f"{path} must have format {FORMAT}. Received: format={found!r}. It "
            "was written by another version: prepare the corpus again."
        )
    return values
