"""Files that appear whole or not at all, and lines of text that come in."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from keras_transformer.errors import InputError


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[Path]:
    """Gives a path to write to, and puts that file in place of `path`.

    On any failure, a full disk or a power cut the file that was at `path`
    stays, and nothing half written is left of it.

    Args:
        path: The file. What is written meanwhile has the same ending.
    """
    path = Path(path)
    partial = path.with_name(f".partial-{path.name}")
    try:
        yield partial
        with open(partial, "rb") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        if error.errno and not error.filename:  # a write does not say where
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        partial.unlink(missing_ok=True)


def reserve_disk_space(path: Path, size: int) -> None:
    """Raises OSError if a disk has no room for a file.

    Args:
        path: The file, which must not be there yet. It is not afterwards.
        size: Bytes.
    """
    try:
        with open(path, "wb") as file:
            # Where the system cannot reserve, the writer finds out.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        path.unlink(missing_ok=True)


def read_lines(stream: BinaryIO) -> Iterator[str]:
    """Yields the lines of standard input, without their ends.

    Raises:
        InputError: If one is not UTF-8.
    """
    for number, line in enumerate(stream, 1):
        try:
            # Some editors put a byte order mark before the first line.
            encoding = "utf-8-sig" if number == 1 else "utf-8"
            yield line.decode(encoding).rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise InputError(
                f"Standard input must be UTF-8. Received: line {number}, "
                f"{error.reason} at byte {error.start + 1}"
            ) from error
