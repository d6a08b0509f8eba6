"""Treebanks: pairs of a sentence and its tree, from `.mrg` files."""

import os
from collections.abc import Iterator

from keras_transformer.support.errors import InputError
from keras_transformer.tasks.parsing import read_trees
from keras_transformer.train.data.reading import SPLITS, Split

_SUFFIX = ".mrg"


class Treebank(Split):
    """The trees of a file, each after its sentence.

    The sentence has the words of the tree, separated by spaces.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path, [path])

    def read(self) -> Iterator[tuple[str, str]]:
        try:
            for tree in read_trees(self.name):
                yield " ".join(tree.words), str(tree)
        except OSError as error:
            raise InputError(
                "A file of the corpus cannot be read. Received: "
                f"{self.name} ({error.strerror})"
            ) from error


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
