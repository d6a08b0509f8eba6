"""Splits of a corpus that are text: two files, and a .tsv.

`Corpus` in corpus.py says what each class here provides.
"""

import codecs
import itertools
from collections.abc import Iterator

import tensorflow as tf

from keras_transformer.errors import InputError
from keras_transformer.train.data.parallel import CHUNK


class LineFiles:
    """Two files, line N of one translating line N of the other.

    Args:
        source: Path of the source's file.
        target: Path of the target's file.
    """

    def __init__(self, source: str, target: str) -> None:
        self.name = f"{source} and {target}"
        self._paths = (source, target)

    def dataset(self, index: int, count: int) -> tf.data.Dataset:
        """Returns every `count`-th pair of lines, from number `index` on."""
        sides = (_dataset(path).shard(count, index) for path in self._paths)
        return tf.data.Dataset.zip(tuple(sides))

    def read(self) -> Iterator[tuple[str, str]]:
        """Yields the pairs.

        Raises:
            InputError: If a file cannot be read, is not UTF-8, or has more
                lines than the other.
        """
        sides = [_lines(path) for path in self._paths]
        for number, pair in enumerate(itertools.zip_longest(*sides)):
            if None in pair:
                rest = 1 + sum(1 for side in sides for _ in side)
                counts = [number + (side is not None) * rest for side in pair]
                raise InputError(
                    "Both sides of a corpus must have the same number of "
                    "lines. Received: "
                    + ", ".join(
                        f"{path} with {count} lines"
                        for path, count in zip(self._paths, counts, strict=True)
                    )
                )
            yield pair


class Tsv:
    """One file with source and target in the first two columns of several.

    Args:
        path: Path of the file.
    """

    def __init__(self, path: str) -> None:
        self.name = path

    def dataset(self, index: int, count: int) -> tf.data.Dataset:
        """Returns the pair of every `count`-th line, from `index` on."""

        def columns(lines: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            # [N, 2]
            both = tf.strings.split(lines, "\t").to_tensor("", shape=[None, 2])
            return both[:, 0], both[:, 1]

        lines = _dataset(self.name).shard(count, index)
        return lines.batch(CHUNK).map(columns).unbatch()

    def read(self) -> Iterator[tuple[str, str]]:
        """Yields the pairs.

        Raises:
            InputError: If the file cannot be read or is not UTF-8, or a line
                has no tab.
        """
        for number, line in enumerate(_lines(self.name), start=1):
            columns = line.split("\t")
            if len(columns) < 2:
                raise InputError(
                    "A line of a .tsv corpus must be source, tab, target. "
                    f"Received: {self.name}, line {number}, without a tab"
                )
            yield columns[0], columns[1]


def _dataset(path: str) -> tf.data.Dataset:
    """Returns the lines, without the mark that some editors put first."""
    lines = tf.data.TextLineDataset(path)
    with open(path, "rb") as file:
        if file.read(3) != codecs.BOM_UTF8:
            return lines
    first = lines.take(1).map(lambda line: tf.strings.substr(line, 3, -1))
    return first.concatenate(lines.skip(1))


def _lines(path: str) -> Iterator[str]:
    """Yields the lines of a file as `_dataset` has them."""
    try:
        file = open(path, "rb")
    except OSError as error:
        raise InputError(
            "A file of the corpus cannot be read. Received: "
            f"{path} ({error.strerror})"
        ) from error
    with file:
        for number, line in enumerate(file, start=1):
            if number == 1:
                utf_16 = line.startswith((codecs.BOM_UTF16, b"\xfe\xff"))
                line = line.removeprefix(codecs.BOM_UTF8)
            try:
                # TextLineDataset leaves out every CR, wherever it is.
                yield line.rstrip(b"\n").replace(b"\r", b"").decode("utf-8")
            except UnicodeDecodeError as error:
                raise InputError(
                    "A corpus must be UTF-8 text. Received: "
                    f"{path}, line {number}: {error.reason} at byte "
                    f"{error.start + 1} of the line. Convert it, for example "
                    f"with iconv -f {'utf-16' if utf_16 else 'latin1'} "
                    "-t utf-8."
                ) from None
