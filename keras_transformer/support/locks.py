"""Keeping other processes from writing to a folder."""

import contextlib
import errno
import functools
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import explain_missing_packages

# What file systems without locks answer, such as NFS without its daemon.
_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP}

_warn_once = functools.cache(logging.getLogger(__name__).warning)


@contextlib.contextmanager
def locked(
    path: str | os.PathLike,
    wait: bool = False,
    name: str = "lock",
    output: Path | None = None,
) -> Iterator[None]:
    """Creates and locks a folder; messages name `output`, or the folder.

    Where the file system has no locks, it warns, once.
    """
    with explain_missing_packages():
        from filelock import FileLock, Timeout

    os.makedirs(path, exist_ok=True)
    with contextlib.ExitStack() as stack:
        lock = FileLock(Path(path) / name, timeout=-1 if wait else 0)
        try:
            stack.enter_context(lock)
        except Timeout as error:
            raise InputError(
                f"Another process is writing to {output or path}. Wait for it, "
                "or choose a different output."
            ) from error
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            _warn_once(
                "the file system has no locks: let only one process write to a "
                f"folder ({error.strerror})"
            )
        yield
