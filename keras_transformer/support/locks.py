"""Keeping other processes from writing to a folder."""

import contextlib
import errno
import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from keras_transformer.support.errors import InputError

# What a file system without locks answers, such as Lustre by default.
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL)


@contextlib.contextmanager
def locked(
    path: str | os.PathLike, wait: bool = False, name: str = "lock"
) -> Iterator[None]:
    """Creates a folder and keeps other processes from writing to it.

    It may be moved or removed while it is locked. The lock is a file, because
    NFS locks only what is open for writing.
    """
    path, lock = Path(path), Path(path) / name
    while True:
        path.mkdir(parents=True, exist_ok=True)
        try:
            file = open(lock, "a")
        except FileNotFoundError:
            continue  # whoever has it has moved or removed the folder
        with file:
            try:
                fcntl.flock(
                    file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB)
                )
            except BlockingIOError as error:
                raise InputError(
                    f"Another process is writing to {path}. Wait until it has "
                    "finished, or choose another output."
                ) from error
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                print(
                    f"Warning: the file system of {path} does not support "
                    "locks. Make sure that no other process writes to this "
                    "folder.",
                    file=sys.stderr,
                )
            try:
                is_there = os.path.samestat(
                    os.fstat(file.fileno()), lock.stat()
                )
            except FileNotFoundError:
                is_there = False
            if is_there:
                yield
                return
