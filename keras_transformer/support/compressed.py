"""Opens files of text, compressed or not: their first bytes say which."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from keras_transformer.support.errors import InputError

SUFFIXES = (".gz", ".bz2", ".xz", ".zst")


class _ZstdFile(io.RawIOBase):
    """Reads a Zstandard file, and notices where it is truncated."""

    def __init__(self, file: BinaryIO) -> None:
        try:
            import zstandard
        except ModuleNotFoundError as error:
            raise InputError(
                "Files compressed by Zstandard need the package zstandard. "
                f"Received: {file.name}. Run `pip install zstandard`, or "
                "unpack the file."
            ) from error
        self._file = file
        self._start = zstandard.ZstdDecompressor().decompressobj
        self._frame = self._start()
        self._damage = zstandard.ZstdError
        self._unread = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._unread:
            chunk = self._frame.unused_data or self._file.read(2**17)
            if self._frame.eof:
                if not chunk:
                    return 0
                self._frame = self._start()
            if not chunk:
                raise EOFError("it is truncated")
            try:
                self._unread = memoryview(self._frame.decompress(chunk))
            except self._damage as error:
                raise EOFError(str(error)) from error
        count = min(len(buffer), len(self._unread))
        buffer[:count] = self._unread[:count]
        self._unread = self._unread[count:]
        return count


# How each type begins, and what reads it; text in UTF-8 begins with none.
_TYPES: dict[bytes, Callable[[BinaryIO], BinaryIO]] = {
    rb"\x1f\x8b": gzip.open,
    rb"BZh[1-9](1AY&SY|\x17rE8P\x90)": bz2.open,
    rb"\xfd7zXZ\0": lzma.open,
    rb"\x28\xb5\x2f\xfd": lambda file: io.BufferedReader(_ZstdFile(file)),
}
_DAMAGE = EOFError, OSError, gzip.BadGzipFile, zlib.error, lzma.LZMAError
_ARCHIVES = (b"PK\x03\x04", b"7z\xbc\xaf", b"Rar!\x1a")


def without_suffix(path: str) -> str:
    """Returns a path without the suffix of a compressed file."""
    root, suffix = os.path.splitext(path)
    return root if suffix in SUFFIXES else path


def is_compressed(text: BinaryIO) -> bool:
    """Returns whether what `decompressed` yields was compressed."""
    plain = isinstance(text, io.BufferedReader)
    return not plain or isinstance(text.raw, _ZstdFile)


@contextlib.contextmanager
def decompressed(file: BinaryIO, path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Yields a file that reads what a buffered one contains.

    Raises:
        InputError: If `path` has the name of a compressed file and this is
            none; if it is an archive, truncated or damaged.
    """
    start = file.peek(10)[:10]
    is_named = without_suffix(str(path)) != str(path)
    read = next((y for x, y in _TYPES.items() if re.match(x, start)), None)
    if start.startswith(_ARCHIVES):
        raise InputError(
            f"A file of text must not be an archive. Received: {path}. Unpack "
            "it, and name the files that it contains."
        )
    try:
        if read is None and is_named:
            raise EOFError("it is not compressed")
        yield file if read is None else read(file)
    except _DAMAGE as error:
        # Those of a disk have a number, and those of a network a class.
        if getattr(error, "errno", None) or type(error) not in _DAMAGE:
            raise
        raise InputError(
            "A compressed file must be complete and of the type that its "
            f"name says. Received: {path} ({error})"
        ) from error
