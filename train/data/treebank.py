"""Treebanks: pairs of a sentence and its tree, from `.mrg` files."""

import os
from collections.abc import Iterator, Sequence

from keras_transformer.support.compressed import without_suffix
from keras_transformer.tasks.parsing import read_trees
from keras_transformer.train.data.reading import SPLITS, Split, open_file

FILES = {f"{split}.mrg": split for split in SPLITS}


class Treebank(Split):
    """The trees of a file, each after its words, separated by spaces."""

    def read(self) -> Iterator[tuple[str, str]]:
        open_file(self.name).close()  # a clear message if it cannot be read
        for tree in read_trees(self.name):
            yield " ".join(tree.words), str(tree)


def open_folder(folder: str, names: Sequence[str]) -> dict[str, Treebank]:
    """Returns the splits of the files `SPLIT.mrg` in a folder."""
    splits = {}
    for name in names:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            split = FILES[without_suffix(name)]
            splits.setdefault(split, Treebank(path, [path]))
    return splits
