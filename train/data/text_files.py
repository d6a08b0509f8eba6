"""Corpora in text files: a folder, two files, or one .tsv file."""

import codecs
import itertools
import os
from collections.abc import Iterator, Sequence

from keras_transformer.support.errors import InputError
from keras_transformer.train.data.reading import SPLITS, Split, open_file


class LineFiles(Split):
    """Two files, line N of one being the translation of line N of the other."""

    def __init__(self, source: str, target: str) -> None:
        super().__init__(f"{source} and {target}", [source, target])

    def read(self) -> Iterator[tuple[str, str]]:
        sides = map(_read_lines, self.paths)
        for source, target in itertools.zip_longest(*sides):
            if source is None or target is None:
                counts = [sum(1 for _ in _read_lines(p)) for p in self.paths]
                found = zip(self.paths, counts, strict=True)
                raise InputError(
                    "Both sides of a corpus must have the same number of "
                    "lines. Received: "
                    + ", ".join(f"{path} with {n} lines" for path, n in found)
                )
            yield source, target


class Tsv(Split):
    """One file with source and target in the first two tab-separated columns.

    Further columns are ignored.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path, [path])

    def read(self) -> Iterator[tuple[str, str]]:
        for number, line in enumerate(_read_lines(self.name), start=1):
            source, tab, rest = line.partition("\t")
            if not tab:
                raise InputError(
                    "A line of a .tsv corpus must be source, tab, target. "
                    f"Received: {self.name}, line {number}, without a tab"
                )
            yield source, rest.partition("\t")[0]


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


def _read_lines(path: str) -> Iterator[str]:
    """Yields the lines without CR and without a leading byte order mark.

    A last line without LF of which nothing is left then is none.
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
