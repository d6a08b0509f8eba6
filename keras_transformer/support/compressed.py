"""Opens files of text, compressed if their suffix says so."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from keras_transformer.support.errors import InputError


def _open_zstandard(file: BinaryIO) -> BinaryIO:
    try:
        import zstandard
    except ModuleNotFoundError as error:
        raise InputError(
            "Zstandard files need the package zstandard. Received: "
            f"{file.name}. Run `pip install zstandard`, or unpack the file."
        ) from error
    # The reader takes a truncated file for a complete one.
    frame = zstandard.ZstdDecompressor().decompressobj()
    try:
        while chunk := frame.unused_data or file.read(2**20):
            if frame.eof:  # there may be several frames
                frame = zstandard.ZstdDecompressor().decompressobj()
            frame.decompress(chunk)
    except zstandard.ZstdError as error:
        raise EOFError(str(error)) from error
    if not frame.eof:
        raise EOFError("it is truncated")
    file.seek(0)
    reader = zstandard.ZstdDecompressor().stream_reader(
        file, read_across_frames=True
    )
    return io.BufferedReader(reader)


_READERS = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _open_zstandard,
}
SUFFIXES = tuple(_READERS)


def without_suffix(path: str) -> str:
    """Returns a path without the suffix of a compressed file."""
    root, suffix = os.path.splitext(path)
    return root if suffix in SUFFIXES else path


@contextlib.contextmanager
def decompressed(file: BinaryIO, path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Yields a buffered file, decompressed according to its suffix.

    Raises:
        InputError: If a compressed file is truncated or damaged.
    """
    read = _READERS.get(os.path.splitext(path)[1])
    if read is None:
        yield file
        return
    try:
        yield read(file)
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        if getattr(error, "errno", None):  # the system's, not the reader's
            raise
        raise InputError(
            "A compressed file must be complete and of the type that its name "
            f"says. Received: {path} ({error})"
        ) from error
