"""Opens files of text, compressed or not: their first bytes say which."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import re
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

from keras_transformer.support.errors import InputError

SUFFIXES = (".gz", ".bz2", ".xz", ".zst")


class _ZstdFile(io.RawIOBase):
    """Reads a Zstandard file, and notices where it is truncated."""

    def __init__(self, file: BinaryIO) -> None:
        self._chunks, self._unread = _zstd_chunks(file), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._unread:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._unread = memoryview(chunk)
        count = min(len(buffer), len(self._unread))
        buffer[:count] = self._unread[:count]
        self._unread = self._unread[count:]
        return count


def _zstd_chunks(file: BinaryIO) -> Iterator[bytes]:
    try:
        import zstandard
    except ModuleNotFoundError as error:
        raise InputError(
            "Files of Zstandard need the package zstandard. Received: "
            f"{file.name}. Run `pip install zstandard`, or unpack the file."
        ) from error
    frame = zstandard.ZstdDecompressor().decompressobj()
    while chunk := frame.unused_data or file.read(2**17):
        if frame.eof:  # another one follows
            frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            yield frame.decompress(chunk)
        except zstandard.ZstdError as error:
            raise EOFError(str(error)) from error
    if not frame.eof:
        raise EOFError("it is truncated")


# The first bytes of each type, with which no text in UTF-8 begins; its reader.
_TYPES = {
    rb"\x1f\x8b": gzip.open,
    rb"BZh[1-9](1AY&SY|\x17rE8P\x90)": bz2.open,
    rb"\xfd7zXZ\0": lzma.open,
    rb"\x28\xb5\x2f\xfd": lambda file: io.BufferedReader(_ZstdFile(file)),
}
# Exceptions of the readers; errors of a disk have a number, too.
_DAMAGE = (EOFError, OSError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)
_ARCHIVES = (b"PK\x03\x04", b"7z\xbc\xaf", b"Rar!\x1a")


def without_suffix(path: str) -> str:
    """Returns a path without the suffix of a compressed file."""
    root, suffix = os.path.splitext(path)
    return root if suffix in SUFFIXES else path


@contextlib.contextmanager
def decompressed(file: BinaryIO, path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Yields a buffered file, decompressed if its first bytes say so.

    Raises:
        InputError: If only the name is that of a compressed file; if it is an
            archive, truncated or damaged.
    """
    start = file.peek(10)[:10]
    read = next((y for x, y in _TYPES.items() if re.match(x, start)), None)
    if read is None:
        _check_no_archive(file, path)
        if without_suffix(str(path)) != str(path):
            raise _damaged(path, "it is not compressed")
        yield file
        return
    try:
        text = read(file)
        _check_no_archive(text, path)
        yield text
    except _DAMAGE as error:
        # Others may raise errors of a derived class.
        if type(error) not in _DAMAGE or getattr(error, "errno", None):
            raise
        raise _damaged(path, error) from error


def _check_no_archive(text: Any, path: str | os.PathLike) -> None:
    start = text.peek(512)
    if start.startswith(_ARCHIVES) or start[257:262] == b"ustar":  # of tar
        raise InputError(
            f"A file of text must not be an archive. Received: {path}. Unpack "
            "it, and name the files that it contains."
        )


def _damaged(path: str | os.PathLike, problem: Any) -> InputError:
    return InputError(
        "A compressed file must be complete and of the type that its name "
        f"says. Received: {path} ({problem})"
    )
