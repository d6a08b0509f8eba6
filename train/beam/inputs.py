"""The corpora that can be prepared on Beam: text files, also compressed."""

import glob
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from apache_beam.io.filesystems import FileSystems

from keras_transformer.support.errors import InputError
from keras_transformer.train.data.corpus import Corpus, open_corpus
from keras_transformer.train.data.text_files import LineFiles, TextFiles, Tsv

_COMPRESSED = (".gz", ".bz2", ".zst")


def find_inputs(
    names: Sequence[str], source: str | None, target: str | None
) -> tuple[Corpus, list[tuple[str, ...]]]:
    """Finds the files of a corpus, in the order of their names.

    Args:
        names: A folder of text files; a pattern of .tsv files; or a pattern of
            the files of each side.
        source: Language code of the source, or None.
        target: Language code of the target, or None.

    Returns:
        The corpus, and the files of its training split, which follow one
        another: the .tsv file, or the files of source and target.

    Raises:
        InputError: If there are no such files.
    """
    if len(names) == 1 and os.path.isdir(names[0]):
        corpus = open_corpus(names, source, target)
        split = corpus.pairs("train")
        if not isinstance(split, LineFiles):
            raise InputError(
                "On Beam, a corpus must be text files. Received: "
                f"{corpus.name}. Use `keras-transformer prepare`."
            )
        return corpus, [tuple(map(os.path.abspath, split.paths))]
    if len(names) > 2:
        raise InputError(
            "The --input must be a folder, a .tsv file, or a file of each "
            "side; patterns in quotes match several. Received: "
            f"{len(names)} names"
        )
    sides = [_match(name) for name in names]
    if len(sides[0]) != len(sides[-1]):
        raise InputError(
            "The patterns of source and target must match the same number of "
            f"files. Received: {names[0]} with {len(sides[0])}, {names[1]} "
            f"with {len(sides[1])}"
        )
    for path in sides[0] if len(sides) == 1 else ():
        if not _uncompressed(path).endswith(".tsv"):
            raise InputError(
                "A single file must be a .tsv file with source, tab, target "
                f"on each line. Received: {path}. If it has one language, "
                "name the file of the other language too."
            )
    if len(sides) == 2 and all(map(os.path.isfile, names)):
        # It checks the order of the languages.
        corpus = open_corpus(names, source, target)
    else:
        corpus = Corpus(" ".join(names), {}, source, target)
    return corpus, list(zip(*sides, strict=True))


def open_files(parts: Sequence[tuple[str, ...]], work: Path) -> list[TextFiles]:
    """Opens the files that were found; copies into `work` are uncompressed.

    Any part of those can be read without what is before it.
    """
    files: list[TextFiles] = []
    for number, paths in enumerate(parts):
        copies = [_uncompress(path, work, number) for path in paths]
        cls = Tsv if len(paths) == 1 else LineFiles
        files.append(cls(" and ".join(paths), copies))
    return files


def _match(pattern: str) -> list[str]:
    found = [pattern] if os.path.exists(pattern) else glob.glob(pattern)
    files = [path for path in sorted(found) if os.path.isfile(path)]
    if not files:
        raise InputError(
            f"The --input must be text files. Received: {pattern}, which "
            "matches none"
        )
    return list(map(os.path.abspath, files))


def _uncompressed(path: str) -> str:
    """Returns the path without the suffix of a compressed file."""
    root, suffix = os.path.splitext(path)
    return root if suffix in _COMPRESSED else path


def _uncompress(path: str, work: Path, number: int) -> str:
    root = _uncompressed(path)
    if root == path:
        return path
    copy = work / f"{number:05d}-{os.path.basename(root)}"
    with FileSystems.open(path) as file, open(copy, "wb") as output:
        shutil.copyfileobj(file, output, 2**20)
    return str(copy)
