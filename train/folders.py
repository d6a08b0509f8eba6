"""New folders: checked, locked, and created atomically."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from keras_transformer.support.errors import InputError
from keras_transformer.support.files import check_creatable, partial_path
from keras_transformer.support.locks import locked
from keras_transformer.text import VOCABULARY_FILES
from keras_transformer.train.data.prepared import is_prepared

# Marks a new run that has no config.json yet: it may be started again.
UNFINISHED = ".partial-run"


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
