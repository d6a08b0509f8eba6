"""Keeping other processes from writing to a folder."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import explain_missing_packages


@contextlib.contextmanager
def locked(
    path: str | os.PathLike,
    wait: bool = False,
    name: str = "lock",
    output: Path | None = None,
) -> Iterator[None]:
    """Creates and locks a folder; messages name `output`, or the folder."""
    with explain_missing_packages():
        from filelock import FileLock, Timeout

    os.makedirs(path, exist_ok=True)
    try:
        with FileLock(Path(path) / name, timeout=-1 if wait else 0):
            yield
    except Timeout as error:
        raise InputError(
            f"Another process is writing to {output or path}. Wait for it, or "
            "choose a different output."
        ) from error
