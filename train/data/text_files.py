"""Corpora in text files: a folder, two files, or one .tsv file."""

import codecs
import itertools
import os
from collections.abc import Iterator, Sequence

from keras_transformer.support.errors import InputError
from keras_transformer.train.data.reading import SPLITS, Split, open_file


class LineFiles(Split):
    """Two files, line N of one being the translation of line N of the other."""

    def read(self) -> Iterator[tuple[str, str]]:
        for pair in itertools.zip_longest(*map(_read_lines, self.paths)):
            if None in pair:
                counts = (
                    f"{path} with {sum(1 for _ in _read_lines(path))} lines"
                    for path in self.paths
                )
                raise InputError(
                    "Both sides of a corpus must have the same number of "
                    f"lines. Received: {', '.join(counts)}"
                )
            yield pair


class Tsv(Split):
    """A file whose first two tab-separated columns are source and target."""

    def read(self) -> Iterator[tuple[str, str]]:
        (path,) = self.paths
        for number, line in enumerate(_read_lines(path), start=1):
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
        paths = [os.path.join(folder, f"{split}.{s}") for s in (source, target)]
        missing = [path for path in paths if not os.path.isfile(path)]
        if not missing:
            splits[split] = LineFiles(" and ".join(paths), paths)
        elif len(missing) == 1:
            (present,) = set(paths) - set(missing)
            raise InputError(
                f"A split needs both sides. Received: {present} without "
                f"{missing[0]}. {found}"
            )
    if not splits:
        raise InputError(
            f"A folder must have train.{source} and train.{target}, or such "
            f"files for valid or test. Received: {folder}. {found}"
        )
    return splits


def _read_lines(path: str) -> Iterator[str]:
    """Yields the lines without CR and without a leading byte order mark.

    An empty last line without LF is not a line.
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
