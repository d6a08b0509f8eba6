"""Treebanks: pairs of a sentence and its tree, from `.mrg` files.

Each class implements the protocol `Split` of corpus.py.
"""

import functools
import os
from collections.abc import Iterator

import tensorflow as tf

from keras_transformer.support.errors import InputError
from keras_transformer.tasks.parsing import read_trees
from keras_transformer.train.data.reading import SPLITS

_SUFFIX = ".mrg"


class Treebank:
    """The trees of a file, each after its sentence.

    The sentence has the words of the tree, separated by spaces. The trees are
    read once and kept in memory.

    Args:
        path: Path of a file in the format of the Penn Treebank.
    """

    def __init__(self, path: str) -> None:
        self.name = path

    @functools.cached_property
    def _pairs(self) -> list[tuple[str, str]]:
        try:
            return [
                (" ".join(tree.words), str(tree))
                for tree in read_trees(self.name)
            ]
        except OSError as error:
            raise InputError(
                "A file of the corpus cannot be read. Received: "
                f"{self.name} ({error.strerror})"
            ) from error

    def dataset(self, index: int, count: int) -> tf.data.Dataset:
        """Returns every `count`-th pair, starting with `index`."""
        pairs = tuple(
            tf.constant([pair[side] for pair in self._pairs], tf.string)
            for side in (0, 1)
        )
        return tf.data.Dataset.from_tensor_slices(pairs).shard(count, index)

    def read(self) -> Iterator[tuple[str, str]]:
        """Yields the pairs.

        Raises:
            InputError: If the file cannot be read or is not a treebank.
        """
        yield from self._pairs


def is_treebank(name: str) -> bool:
    """Returns whether a file of this name is a split of a treebank."""
    stem, suffix = os.path.splitext(name)
    return suffix == _SUFFIX and stem in SPLITS


def open_folder(folder: str) -> dict[str, Treebank]:
    """Returns the splits of the files `SPLIT.mrg` in a folder."""
    paths = {split: os.path.join(folder, split + _SUFFIX) for split in SPLITS}
    return {
        split: Treebank(path)
        for split, path in paths.items()
        if os.path.isfile(path)
    }
