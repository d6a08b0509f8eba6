"""Opens text files, which may be compressed."""

import bz2
import contextlib
import gzip
import lzma
import os
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import explain_missing_packages

_READERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
SUFFIXES = (*_READERS, ".zst")


def without_suffix(path: str) -> str:
    """Returns a path without the suffix of a compressed file."""
    root, suffix = os.path.splitext(path)
    return root if suffix in SUFFIXES else path


@contextlib.contextmanager
def decompressed(file: BinaryIO, path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Yields a buffered file, decompressed according to its suffix."""
    suffix = os.path.splitext(path)[1]
    if suffix not in SUFFIXES:
        yield file
        return
    damage = [EOFError, OSError, zlib.error, lzma.LZMAError]
    if suffix == ".zst":
        with explain_missing_packages():
            import backports.zstd as zstd
        damage.append(zstd.ZstdError)
    read = _READERS.get(suffix) or zstd.open
    try:
        yield read(file)
    except tuple(damage) as error:
        if getattr(error, "errno", None):  # the system's, not the reader's
            raise
        raise InputError(
            "A compressed file must be complete, and its suffix that of its "
            f"type. Received: {path} ({error})"
        ) from error
