"""Corpora in text files: a folder, two files, a table, or a treebank."""

import functools
import itertools
import logging
import os
import re
from collections.abc import Iterator, Sequence

from keras_transformer.support import fields
from keras_transformer.support.errors import InputError
from keras_transformer.support.text_files import read_lines, without_suffix
from keras_transformer.tasks.parsing import read_trees
from keras_transformer.train.data.reading import SPLITS, Reader

logger = logging.getLogger(__name__)

_COLUMNS = fields.Rule(
    tuple | list,
    "the numbers of two columns, counted from 1",
    lambda x: len(x) == 2 and all(map(fields.POSITIVE_INTEGER.accepts, x)),
)
# Lines from which the form of a file is guessed.
_FIRST_LINES = 100
_NUMBER = re.compile(r"\s*-?\d[\d.,]*(e-?\d+)?\s*", re.IGNORECASE)


def open_folder(
    folder: str, source: str | None, target: str | None
) -> dict[str, Reader]:
    """Returns the splits of the files `SPLIT.LANGUAGE` in a folder."""
    files = {
        without_suffix(name): name
        for name in sorted(os.listdir(folder), reverse=True)
        if name.partition(".")[0] in SPLITS
    }
    languages = sorted({name.partition(".")[2] for name in files})
    content = f"The folder contains files for: {', '.join(languages) or 'none'}"
    if source is not None and source == target:
        raise InputError(
            f"must differ from the source. Received: {target} for both.",
            argument="target",
        )
    splits = {}
    for split in SPLITS if source and target else ():
        sides = [f"{split}.{source}", f"{split}.{target}"]
        present = [os.path.join(folder, files[x]) for x in sides if x in files]
        if len(present) == 2:
            splits[split] = open_two_files(present)
        elif present:
            raise InputError(
                f"A split must consist of {' and '.join(sides)}. Received: "
                f"{present[0]} alone. {content}"
            )
    if not splits:
        raise InputError(
            "A folder must contain train.SOURCE and train.TARGET, or the same "
            "for valid or test. Pass these extensions as source and target. "
            f"Received: {folder} with source={source!r}, target={target!r}. "
            f"{content}"
        )
    return splits


def open_treebank(folder: str) -> dict[str, Reader]:
    """Returns the splits of the files `SPLIT.mrg` in a folder, if any."""
    splits = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        split, _, suffix = without_suffix(name).partition(".")
        if split in SPLITS and suffix == "mrg" and os.path.isfile(path):
            reader = Reader(path, functools.partial(_read_treebank, path))
            splits.setdefault(split, reader)
    return splits


def _read_treebank(path: str) -> Iterator[tuple[str, str]]:
    for tree in read_trees(path):
        yield " ".join(tree.words), str(tree)


def open_two_files(paths: Sequence[str]) -> Reader:
    """Returns the pairs of the lines of two files."""

    def read() -> Iterator[tuple[str, str]]:
        source, target = map(_clean_lines, paths)
        for pair in itertools.zip_longest(source, target):
            if None in pair:
                counts = [sum(1 for _ in _clean_lines(path)) for path in paths]
                raise InputError(
                    "Both sides of a corpus must contain the same number of "
                    f"lines. Received: {paths[0]} with {counts[0]} lines, "
                    f"{paths[1]} with {counts[1]} lines"
                )
            yield pair

    return Reader(" and ".join(paths), read)


def open_table(path: str, columns: Sequence[int] | None = None) -> Reader:
    """Returns the pairs of two columns of a file, by default the first two."""
    suffix = os.path.splitext(without_suffix(path))[1]
    lines = []
    if suffix in (".tsv", ".txt"):
        lines = list(itertools.islice(_clean_lines(path), _FIRST_LINES))
    if suffix != ".tsv" and not any("\t" in line for line in lines):
        raise InputError(
            "A single file must be a .tsv file with source, tab, target on "
            f"each line. Received: {path}. Pass a text file with the file of "
            "the other language, and a treebank as its folder."
        )
    if columns is None:
        columns = 1, 2
        _warn_of_numbers(path, lines)
    fields.check_values(_COLUMNS, columns=columns)
    source, target = columns
    last = max(columns)

    def read() -> Iterator[tuple[str, str]]:
        for number, line in enumerate(_clean_lines(path), start=1):
            cells = line.split("\t", last)
            if len(cells) < last:
                raise InputError(
                    f"Each line must contain {last} columns or more, separated "
                    f"by tabs. Received: {path}, line {number}, with "
                    f"{len(cells)}"
                )
            yield cells[source - 1], cells[target - 1]

    return Reader(path, read)


def _warn_of_numbers(path: str, lines: Sequence[str]) -> None:
    """Warns if the first column seems to contain ids or scores."""
    columns = zip(*(line.split("\t") for line in lines), strict=False)
    are_numbers = [all(map(_NUMBER.fullmatch, cells)) for cells in columns]
    if are_numbers.count(False) > 1 and are_numbers[0]:
        logger.warning(
            f"{path} is read with columns=[1, 2], and the first contains only "
            "numbers. Choose the columns of source and target, such as "
            "columns=[2, 3]."
        )


def _clean_lines(path: str) -> Iterator[str]:
    """Yields lines without the characters that no line of a run may have."""
    for line in read_lines(path):
        yield line.replace("\0", "").replace("\r", " ")
