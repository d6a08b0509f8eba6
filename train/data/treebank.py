"""Treebanks: pairs of a sentence and its tree, from `.mrg` files."""

import functools
import os
from collections.abc import Iterator

from keras_transformer.support.text_files import without_suffix
from keras_transformer.tasks.parsing import read_trees
from keras_transformer.train.data.reading import SPLITS, Reader

_FILES = {f"{split}.mrg": split for split in SPLITS}


def open_folder(folder: str) -> dict[str, Reader]:
    """Returns the splits of the files `SPLIT.mrg` in a folder, if any."""
    splits = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        split = _FILES.get(without_suffix(name))
        if split is not None and os.path.isfile(path):
            reader = Reader(path, functools.partial(_read, path))
            splits.setdefault(split, reader)
    return splits


def _read(path: str) -> Iterator[tuple[str, str]]:
    for tree in read_trees(path):
        yield " ".join(tree.words), str(tree)
