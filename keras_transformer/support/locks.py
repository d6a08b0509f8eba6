"""Keeping other processes from writing to a folder."""

import contextlib
import errno
import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from keras_transformer.support.errors import InputError

logger = logging.getLogger(__name__)

# What a file system without locks answers, such as Lustre by default.
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL)


@contextlib.contextmanager
def locked(
    path: str | os.PathLike,
    wait: bool = False,
    name: str = "lock",
    output: Path | None = None,
) -> Iterator[None]:
    """Creates a folder and keeps other processes from writing to it.

    It may be moved or removed while it is locked. The lock is a file, because
    NFS locks only what is open for writing. Messages name `output`, by default
    the folder.
    """
    path, lock = Path(path), Path(path) / name
    operation = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
    while True:
        path.mkdir(parents=True, exist_ok=True)
        try:
            file = open(lock, "a")
        except FileNotFoundError:
            continue  # whoever has it has moved or removed the folder
        with file:
            try:
                fcntl.flock(file, operation)
            except BlockingIOError as error:
                raise InputError(
                    f"Another process is writing to {output or path}. Wait "
                    "until it has finished, or choose another output."
                ) from error
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                logger.warning(
                    f"the file system of {path} does not support locks. Make "
                    "sure that no other process writes to this folder."
                )
            try:
                exists = os.path.samestat(os.fstat(file.fileno()), lock.stat())
            except FileNotFoundError:
                exists = False
            if exists:
                yield
                return
