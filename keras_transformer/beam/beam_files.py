"""Files on the file systems of Beam: a disk, or for example gs://."""

import contextlib
import io
import os
import uuid
from collections.abc import Iterator
from typing import Any, BinaryIO

from apache_beam.io.filesystem import CompressionTypes, FileMetadata
from apache_beam.io.filesystems import FileSystems

from keras_transformer.support.compressed import decompressed
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import sync


def is_on_disk(path: str) -> bool:
    """Returns whether a path has no scheme, such as gs://."""
    return FileSystems.get_scheme(path) is None


def absolute_path(path: str) -> str:
    """Returns a path that is the same in every folder."""
    try:
        FileSystems.get_filesystem(path)
    except ValueError as error:
        raise InputError(
            "Files must be on a file system that Beam reads, some of them with "
            f"its extras, such as apache-beam[gcp]. Received: {path}"
        ) from error
    return os.path.abspath(path) if is_on_disk(path) else path


def match_files(pattern: str) -> list[FileMetadata]:
    """Returns the files that match a pattern, in the order of their names."""
    (match,) = FileSystems.match([pattern])
    return sorted(match.metadata_list, key=lambda file: file.path)


def find_inputs(pattern: str) -> list[FileMetadata]:
    """Returns the files of a name or a pattern, at least one, in order."""
    path = absolute_path(pattern)
    if os.path.exists(path):  # its name may have a [
        files = [FileSystems.get_filesystem(path).metadata(path)]
    else:
        files = match_files(path)
    if not files or os.path.isdir(path):
        problem = "a folder; its files are 'FOLDER/*'"
        raise InputError(
            f"The --input must be text files. Received: {pattern}, "
            + (problem if files else "which matches none")
        )
    return files


@contextlib.contextmanager
def open_input(path: str) -> Iterator[Any]:
    """Opens a binary file for reading, and decompresses it.

    Beam itself takes a truncated file for a shorter one.
    """
    as_it_is = CompressionTypes.UNCOMPRESSED
    with FileSystems.open(path, compression_type=as_it_is) as file:
        if not hasattr(file, "peek"):
            file = io.BufferedReader(file)
        with decompressed(file, path) as text:
            yield text


@contextlib.contextmanager
def create_file(path: str, partial_folder: str) -> Iterator[BinaryIO]:
    """Opens a binary file for writing, which is at `path` when it is complete.

    Two workers may write the same file: each writes its own in
    `partial_folder` first. The suffix of `path` compresses it.
    """
    name = f"{uuid.uuid4().hex}-{FileSystems.split(path)[1]}"
    partial = FileSystems.join(partial_folder, name)
    with FileSystems.create(partial) as file:
        yield file
    if is_on_disk(partial):
        sync(partial)
    FileSystems.rename([partial], [path])
