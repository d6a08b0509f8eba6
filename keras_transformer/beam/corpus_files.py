"""Finds and opens corpora of text files, also compressed ones."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.beam import beam_files
from keras_transformer.support.compressed import decompressed, without_suffix
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write
from keras_transformer.train.data.corpus import Corpus, open_corpus
from keras_transformer.train.data.reading import open_file
from keras_transformer.train.data.text_files import LineFiles, TextFiles


def find_corpus(
    names: Sequence[str], source: str | None, target: str | None
) -> tuple[Corpus, list[tuple[str, ...]]]:
    """Returns a corpus, and the files of its training split, in their order.

    The names are a folder of text files; or patterns of .tsv files; or one
    pattern of the source files and one of the target files. Only the corpus of
    a folder has splits. Files are one .tsv file each, or a source and a target.
    """
    if len(names) == 1 and os.path.isdir(names[0]):
        corpus = open_corpus(names, source, target)
        train = corpus.pairs("train")
        if not isinstance(train, LineFiles):
            raise InputError(
                "On Beam, a corpus must be text files. Received: "
                f"{corpus.name}. Use `keras-transformer prepare`."
            )
        return corpus, [tuple(map(os.path.abspath, train.paths))]
    sides = []
    for name in names:
        check_on_disk(name, "--input")
        sides.append([file.path for file in beam_files.find_inputs(name)])
    corpus = Corpus(" ".join(names), {}, source, target)
    paths = [path for side in sides for path in side]
    if all(without_suffix(path).endswith(".tsv") for path in paths):
        return corpus, [(path,) for path in paths]
    if len(sides) != 2 or len(sides[0]) != len(sides[1]):
        counts = map("{} ({})".format, names, map(len, sides))
        raise InputError(
            "The --input must be a folder, .tsv files with source, tab, target "
            "on each line, or as many files of the source as of the target; "
            f"quote a pattern of several. Received: {', '.join(counts)}"
        )
    return corpus, list(zip(*sides, strict=True))


def check_on_disk(path: str, flag: str) -> None:
    """Raises InputError for gs:// and other file systems of Beam."""
    if not beam_files.is_on_disk(path):
        raise InputError(
            f"The {flag} must be in a folder of a disk that all workers share. "
            f"Received: {path}"
        )


def open_files(
    parts: Sequence[tuple[str, ...]],
    work: Path,
    source: str | None,
    target: str | None,
) -> list[TextFiles]:
    """Opens the files of a corpus, with uncompressed copies in `work`.

    A worker can read a part of these files without reading all before it.
    """
    files = []
    for number, paths in enumerate(parts):
        prefixes = [work / f"{number:05d}-{side}" for side in range(len(paths))]
        copies = list(map(_uncompress, paths, prefixes))
        files.append(open_corpus(copies, source, target).pairs("train"))
    return files


def _uncompress(path: str, prefix: Path) -> str:
    """Returns the path of an uncompressed copy, or that of the file itself."""
    copy = Path(f"{prefix}-{os.path.basename(without_suffix(path))}")
    if copy.exists():  # an earlier start has written it
        return str(copy)
    with open_file(path) as file, decompressed(file, path) as text:
        if text is file:
            return path
        with atomic_write(copy) as partial, open(partial, "wb") as output:
            shutil.copyfileobj(text, output, 2**20)
    return str(copy)
