"""Reads the lines of UTF-8 text."""

import codecs
import os
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from keras_transformer.support.compressed import decompressed
from keras_transformer.support.errors import InputError

_READ_SIZE = 1 << 16  # bytes; the capacity of a pipe


def read_lines(path: str | os.PathLike) -> Iterator[str]:
    """Yields the lines of a file, which may be compressed.

    Raises InputError at a line that is not UTF-8.
    """
    with open(path, "rb") as file, decompressed(file, path) as stream:
        for lines in arriving_lines(stream, path):
            yield from lines


def arriving_lines(
    stream: BinaryIO, name: str | os.PathLike
) -> Iterator[list[str]]:
    """Yields the lines of a stream as soon as they arrive.

    Each list contains the lines that could be read without waiting for more.
    The lines before an invalid line are yielded before the error.
    """
    number = 1
    unfinished = b""
    while chunk := stream.read1(_READ_SIZE):
        *encoded, unfinished = (unfinished + chunk).split(b"\n")
        yield from _decoded(encoded, name, number)
        number += len(encoded)
    if unfinished.strip(b"\r"):  # the last line has no end
        yield from _decoded([unfinished], name, number)


def _decoded(
    encoded: Sequence[bytes], name: str | os.PathLike, first: int
) -> Iterator[list[str]]:
    lines = []
    for number, line in enumerate(encoded, first):
        try:
            lines.append(stripped(line, number).decode())
        except UnicodeDecodeError as error:
            if lines:
                yield lines
            raise InputError(
                f"{name} must be UTF-8. Received: line {number}, "
                f"{error.reason} at byte {error.start + 1}. Correct the line, "
                "or convert a file of Latin-1 with iconv -f latin1 -t utf-8."
            ) from error
    if lines:
        yield lines


def stripped(line: bytes, number: int) -> bytes:
    """Returns a line without its end, the first without byte order mark."""
    if number == 1:
        line = line.removeprefix(codecs.BOM_UTF8)
    return line.removesuffix(b"\n").rstrip(b"\r")
