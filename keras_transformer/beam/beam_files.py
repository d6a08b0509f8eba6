"""Files on the file systems of Beam: a disk, or for example gs://."""

import contextlib
import os
import uuid
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import zstandard
from apache_beam.io.filesystem import BeamIOError, CompressedFile, FileMetadata
from apache_beam.io.filesystems import FileSystems

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
    """Opens a binary file for reading; its suffix decompresses it.

    It must be read to its end, which finds out whether it is truncated: Beam
    takes such a file for a shorter one.
    """
    with FileSystems.open(path) as file:
        if not isinstance(file, CompressedFile):
            yield file
            return
        try:
            yield file
            # Private to Beam: a new one per member of the file.
            if not file._decompressor.eof:
                raise EOFError("it is truncated")
        except BeamIOError:
            raise
        except (EOFError, OSError, zlib.error, zstandard.ZstdError) as error:
            if getattr(error, "errno", None) is not None:
                raise  # of the disk; bz2 has OSError without a number
            raise InputError(
                "A compressed file must be complete and of the type that its "
                f"name says. Received: {path} ({error})"
            ) from error


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
