"""Corpora in text files: a folder, two files, or one .tsv file."""

import codecs
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence

from keras_transformer.support.compressed import without_suffix
from keras_transformer.support.errors import InputError
from keras_transformer.train.data.reading import SPLITS, Split, open_text


class TextFiles(Split):
    """Text files with a pair per line."""

    def _lines(self) -> Iterator[Iterator[str]]:
        """Yields the lines of each file."""
        return map(_read_lines, self.paths)

    def _unequal(self) -> InputError:
        sides = []
        for path in self.paths:
            count = sum(1 for _ in _read_lines(path))
            sides.append(f"{path} with {count} line{'s' * (count != 1)}")
        return InputError(
            "Both sides of a corpus must have the same number of lines. "
            f"Received: {', '.join(sides)}"
        )


class LineFiles(TextFiles):
    """Two files, line N of one being the translation of line N of the other."""

    def read(self) -> Iterator[tuple[str, str]]:
        for pair in itertools.zip_longest(*self._lines()):
            if None in pair:
                raise self._unequal()
            yield pair


class Tsv(TextFiles):
    """A file whose first two tab-separated columns are source and target."""

    def read(self) -> Iterator[tuple[str, str]]:
        (path,), (lines,) = self.paths, self._lines()
        for number, line in enumerate(lines, start=1):
            source, *others = line.split("\t", 2)
            if not others:
                raise InputError(
                    "A line of a .tsv corpus must be source, tab, target. "
                    f"Received: {path}, line {number}, without a tab"
                )
            yield source, others[0]


def open_folder(
    folder: str, names: Sequence[str], source: str | None, target: str | None
) -> dict[str, LineFiles]:
    """Returns the splits that the files `SPLIT.LANGUAGE` of a folder form.

    `names` are those of all its files that belong to a split.
    """
    files = {without_suffix(name): name for name in reversed(sorted(names))}
    languages = sorted({name.partition(".")[2] for name in files})
    content = f"The folder has files for: {', '.join(languages)}"
    if not languages:
        content = "The folder has no files train.LANGUAGE"
    if not source or not target:
        raise InputError(
            "A folder needs the language codes of source and target, the "
            f"extensions of its files. Received: {folder} with "
            f"source={source!r}, target={target!r}. {content}"
        )
    splits = {}
    for split in SPLITS:
        sides = [f"{split}.{language}" for language in (source, target)]
        paths = [os.path.join(folder, files.get(side, side)) for side in sides]
        missing = [path for path in paths if not os.path.isfile(path)]
        if not missing:
            splits[split] = LineFiles(" and ".join(paths), paths)
        elif len(missing) == 1:
            (present,) = set(paths) - set(missing)
            raise InputError(
                f"A split needs both sides. Received: {present} without "
                f"{missing[0]}. {content}"
            )
    if not splits:
        raise InputError(
            f"A folder must have train.{source} and train.{target}, or such "
            f"files for valid or test. Received: {folder}. {content}"
        )
    return splits


def _raw_lines(file: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the lines of a file; an empty last one without LF is none."""
    for line in file:
        if not line.strip(b"\r"):
            return
        yield line


def _read_lines(path: str) -> Iterator[str]:
    """Yields the lines without their ends and a leading byte order mark."""
    with open_text(path) as file:
        for number, line in enumerate(_raw_lines(file), start=1):
            text = line.rstrip(b"\r\n")
            if number == 1:
                text = text.removeprefix(codecs.BOM_UTF8)
            try:
                text = text.decode("utf-8").replace("\0", "")
                yield text.replace("\r", " ")
            except UnicodeDecodeError as error:
                raise InputError(
                    "A corpus must be UTF-8 text. Received: "
                    f"{path}, line {number}: {error.reason} at byte "
                    f"{error.start + 1} of the line. Convert it, for example "
                    "with iconv -f latin1 -t utf-8."
                ) from None
