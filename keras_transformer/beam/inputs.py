"""Opens the files that pipelines read."""

import contextlib
import zlib
from collections.abc import Iterator
from typing import Any

import zstandard
from apache_beam.io.filesystem import BeamIOError, CompressedFile
from apache_beam.io.filesystems import FileSystems

from keras_transformer.support.errors import InputError


@contextlib.contextmanager
def open_input(path: str) -> Iterator[Any]:
    """Opens a binary file of Beam's file systems; its suffix decompresses it.

    It must be read to its end: Beam takes a truncated file for a shorter one.

    Raises:
        InputError: If it is compressed, and damaged or truncated.
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
