"""Reads the lines of text files, which may be compressed."""

import bz2
import codecs
import gzip
import lzma
import os
from collections.abc import Iterator
from typing import BinaryIO

from keras_transformer.support.errors import InputError, explain_damage
from keras_transformer.support.startup import explain_missing_packages

_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_SUFFIXES = {*_OPENERS, ".zst"}

_READ_SIZE = 1 << 16  # bytes; the capacity of a pipe


def without_suffix(path: str) -> str:
    """Returns a path without the suffix of a compressed file."""
    root, suffix = os.path.splitext(path)
    return root if suffix in _SUFFIXES else path


def read_lines(path: str | os.PathLike) -> Iterator[str]:
    """Yields the lines of a file, which must be UTF-8 and not damaged."""
    with open(path, "rb") as file:
        for lines in arriving_lines(file, path):
            yield from lines


def arriving_lines(
    stream: BinaryIO, name: str | os.PathLike
) -> Iterator[list[str]]:
    """Yields the lines of a stream as `encoded_lines` does, decoded.

    The lines before an invalid line are yielded before the error.
    """
    first = 1
    for encoded in encoded_lines(stream, name):
        lines = []
        for number, line in enumerate(encoded, first):
            try:
                lines.append(line.decode())
            except UnicodeDecodeError as error:
                if lines:
                    yield lines
                raise InputError(
                    f"{name} must be UTF-8. Received: line {number}, "
                    f"{error.reason} at byte {error.start + 1}. Correct the "
                    "line, or convert Latin-1 with iconv -f latin1 -t utf-8."
                ) from error
        yield lines
        first += len(lines)


def encoded_lines(
    stream: BinaryIO, name: str | os.PathLike
) -> Iterator[list[bytes]]:
    """Yields the lines of a stream as soon as they arrive, without their ends.

    Each list contains the lines that could be read without waiting for more.
    The stream is decompressed according to the suffix of its name.
    """
    suffix = os.path.splitext(name)[1]
    if suffix == ".zst":
        with explain_missing_packages():
            import backports.zstd as zstd
        stream = zstd.open(stream)
    elif suffix in _OPENERS:
        stream = _OPENERS[suffix](stream)
    mark = codecs.BOM_UTF8  # some editors write it before the first line
    unfinished = b""
    chunk = b"\n"
    while chunk:
        with explain_damage(name, "complete, and of the type of its suffix"):
            chunk = stream.read1(_READ_SIZE)
        *lines, unfinished = (unfinished + chunk).split(b"\n")
        if not chunk and unfinished.strip(b"\r"):
            lines = [unfinished]  # the last line has no end
        if lines:
            lines[0] = lines[0].removeprefix(mark)
            mark = b""
            yield [line.rstrip(b"\r") for line in lines]
