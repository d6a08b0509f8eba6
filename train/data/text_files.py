"""Corpora in text files: a folder, two files, or one .tsv file.

Each class implements the protocol `Split` of corpus.py.
"""

import codecs
import itertools
import os
from collections.abc import Iterator, Sequence

import tensorflow as tf

from keras_transformer.support.errors import InputError
from keras_transformer.train.data.reading import READ_BATCH, SPLITS, open_file


class LineFiles:
    """Two files, line N of one being the translation of line N of the other.

    Args:
        source: Path of the source file.
        target: Path of the target file.
    """

    def __init__(self, source: str, target: str) -> None:
        self.name = f"{source} and {target}"
        self._paths = (source, target)

    def dataset(self, index: int, count: int) -> tf.data.Dataset:
        """Returns every `count`-th pair of lines, starting with `index`."""
        sides = (_line_dataset(path) for path in self._paths)
        return tf.data.Dataset.zip(tuple(sides)).shard(count, index)

    def read(self) -> Iterator[tuple[str, str]]:
        """Yields the pairs.

        Raises:
            InputError: If a file cannot be read, is not UTF-8, or has more
                lines than the other.
        """
        sides = (_read_lines(path) for path in self._paths)
        for source, target in itertools.zip_longest(*sides):
            if source is None or target is None:
                raise InputError(
                    "Both sides of a corpus must have the same number of "
                    f"lines. Received: {self._line_counts()}"
                )
            yield source, target

    def _line_counts(self) -> str:
        counts = []
        for path in self._paths:
            lines = sum(1 for _ in _read_lines(path))
            counts.append(f"{path} with {lines} lines")
        return ", ".join(counts)


class Tsv:
    """One file with source and target in the first two tab-separated columns.

    Further columns are ignored.

    Args:
        path: Path of the file.
    """

    def __init__(self, path: str) -> None:
        self.name = path

    def dataset(self, index: int, count: int) -> tf.data.Dataset:
        """Returns the pair of every `count`-th line, starting with `index`."""

        def split(lines: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            columns = tf.strings.split(lines, "\t")
            columns = columns.to_tensor("", shape=[None, 2])  # [N, 2]
            return columns[:, 0], columns[:, 1]

        lines = _line_dataset(self.name).shard(count, index)
        return lines.batch(READ_BATCH).map(split).unbatch()

    def read(self) -> Iterator[tuple[str, str]]:
        """Yields the pairs.

        Raises:
            InputError: If the file cannot be read or is not UTF-8, or a line
                has no tab.
        """
        for number, line in enumerate(_read_lines(self.name), start=1):
            columns = line.split("\t")
            if len(columns) < 2:
                raise InputError(
                    "A line of a .tsv corpus must be source, tab, target. "
                    f"Received: {self.name}, line {number}, without a tab"
                )
            yield columns[0], columns[1]


def open_folder(
    folder: str, names: Sequence[str], source: str | None, target: str | None
) -> dict[str, LineFiles]:
    """Returns the splits that the files `SPLIT.LANGUAGE` of a folder form.

    Args:
        folder: Path of the folder.
        names: Names of the files in it that belong to a split.
        source: Language code of the source.
        target: Language code of the target.

    Raises:
        InputError: If a language code is missing, no file has it, or a split
            has only one side.
    """
    languages = sorted({name.partition(".")[2] for name in names})
    found = f"There are files for: {', '.join(languages) or 'no language'}"
    if not source or not target:
        raise InputError(
            "A folder needs the language codes of source and target, the "
            f"extensions of its files. Received: {folder} with "
            f"source={source!r}, target={target!r}. {found}"
        )
    splits = {}
    for split in SPLITS:
        source_path = os.path.join(folder, f"{split}.{source}")
        target_path = os.path.join(folder, f"{split}.{target}")
        has_source = os.path.isfile(source_path)
        has_target = os.path.isfile(target_path)
        if has_source and has_target:
            splits[split] = LineFiles(source_path, target_path)
        elif has_source or has_target:
            present, missing = source_path, target_path
            if has_target:
                present, missing = target_path, source_path
            raise InputError(
                f"A split needs both sides. Received: {present} without "
                f"{missing}. {found}"
            )
    if not splits:
        raise InputError(
            f"A folder must have train.{source} and train.{target}, or such "
            f"files for valid or test. Received: {folder}. {found}"
        )
    return splits


def _line_dataset(path: str) -> tf.data.Dataset:
    """Returns the lines of a file without a leading byte order mark."""
    lines = tf.data.TextLineDataset(path)
    with open_file(path) as file:
        if file.read(3) != codecs.BOM_UTF8:
            return lines
    first = lines.take(1).map(lambda line: tf.strings.substr(line, 3, -1))
    return first.concatenate(lines.skip(1))


def _read_lines(path: str) -> Iterator[str]:
    """Yields exactly the lines that `_line_dataset` has, checked.

    `TextLineDataset` removes every CR, and drops a last line without LF of
    which nothing is left then.
    """
    with open_file(path) as file:
        for number, line in enumerate(file, start=1):
            text = line.replace(b"\r", b"")
            if not text:
                return
            text = text.removesuffix(b"\n")
            if number == 1:
                text = text.removeprefix(codecs.BOM_UTF8)
            try:
                yield text.decode("utf-8")
            except UnicodeDecodeError as error:
                utf_16 = number == 1 and line.startswith(
                    (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
                )
                raise InputError(
                    "A corpus must be UTF-8 text. Received: "
                    f"{path}, line {number}: {error.reason} at byte "
                    f"{error.start + 1} of the line. Convert it, for example "
                    f"with iconv -f {'utf-16' if utf_16 else 'latin1'} "
                    "-t utf-8."
                ) from None
