"""New folders: checked, locked, and there when they are complete."""

import contextlib
import errno
import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from keras_transformer.support.errors import InputError
from keras_transformer.support.files import check_creatable, partial_path
from keras_transformer.text import VOCABULARY_FILES
from keras_transformer.train.data.prepared import is_prepared

# Marks a new run that has no config.json yet: it may be started again.
UNFINISHED = ".partial-run"
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


def check_free(path: str | os.PathLike, for_run: bool = True) -> None:
    """Raises InputError if a folder cannot be created at `path`.

    That of a run may have what a training leaves that was stopped early.
    """
    path = Path(path)
    check_creatable(path)
    is_run = (path / "config.json").exists()
    if not is_run and (path.is_dir() or not path.exists()):
        # `glob` finds hidden files too.
        names = {entry.name for entry in path.glob("*")}
        if for_run:
            if UNFINISHED in names:
                names -= {"checkpoints", *VOCABULARY_FILES}
            names = {n for n in names if not n.startswith(".partial-")}
            names.discard("lock")
        if not names:
            return
    content = "contains a run" if is_run else "contains other files"
    if path.is_file():
        content = "is a file"
    raise InputError(
        f"{path} already {content}. Nothing is overwritten. Choose another "
        "output, or remove it first."
    )


@contextlib.contextmanager
def new_folder(
    path: Path, wait: bool = False, keep: str = ""
) -> Iterator[Path | None]:
    """Yields a temporary folder, and moves it to `path` when it is complete.

    What a process left there that was killed is removed. Yields None if
    another process has written `path` meanwhile. With the name of a folder to
    `keep`, that is left for the next attempt, and found there.
    """
    path = path.absolute()  # "." has no name
    partial = partial_path(path)
    with locked(partial, wait):
        try:
            if is_prepared(path):
                keep = ""
                yield None
                return
            for file in partial.iterdir():
                if file.is_dir() and file.name != keep:
                    shutil.rmtree(file)
                elif file.name not in ("lock", keep):
                    file.unlink()
            yield partial
            keep = ""
            # The lock moves along: until then no other process may begin.
            os.replace(partial, path)
            (path / "lock").unlink()
        finally:
            if not keep:
                shutil.rmtree(partial, ignore_errors=True)
