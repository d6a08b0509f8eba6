"""Reads JSON and YAML, writes atomically, and locks folders."""

import contextlib
import errno
import functools
import json
import logging
import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from keras_transformer.support.errors import InputError, explain_damage
from keras_transformer.support.startup import explain_missing_packages

# What file systems without locks answer, such as NFS without its daemon.
_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP}

_warn_once = functools.cache(logging.getLogger(__name__).warning)


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a temporary path, and moves the file written there to `path`.

    The temporary path has the same folder and suffix. After a failure it is
    deleted, and the previous file is unchanged.
    """
    path = Path(path)
    partial = partial_path(path)
    try:
        with _name_full_disk(path):
            yield partial
            _sync(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a temporary folder of the same name, and moves it to `path`.

    The temporary folder is in the locked folder `.partial-NAME`, in the parent
    of `path` or, if `path` is an empty folder, in `path`. A failure deletes it;
    after a killed process, the next one with the same `path` does.
    """
    path = Path(os.path.realpath(path))
    partial = partial_path(path)
    into_existing = path.is_dir() and _is_free(path)
    if into_existing:
        partial = path / partial.name
    with locked(partial, name=".lock", output=path):
        folder = partial / path.name
        try:
            shutil.rmtree(folder, ignore_errors=True)  # of a killed process
            check_free(path)
            folder.mkdir()
            with _name_full_disk(path):
                yield folder
                for file in folder.rglob("*"):
                    if file.is_file():
                        _sync(file)
            if into_existing:
                # Runs and corpora are complete as soon as their JSON is there.
                files = folder.iterdir()
                for file in sorted(files, key=lambda x: x.suffix == ".json"):
                    os.replace(file, path / file.name)
            else:
                os.replace(folder, path)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


@contextlib.contextmanager
def locked(
    path: str | os.PathLike,
    wait: bool = False,
    name: str = "lock",
    output: Path | None = None,
) -> Iterator[None]:
    """Creates a folder, and locks it against other processes.

    Errors name `output`, by default the folder. If the file system has no
    locks, there is one warning.
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


@contextlib.contextmanager
def _name_full_disk(path: Path) -> Iterator[None]:
    """Names a path in errors that name no file, as of a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno and not error.filename:
            error.filename = str(path)
        raise


def _sync(path: Path) -> None:
    """Waits until a file is on the disk: a power cut may leave it empty."""
    with open(path, "rb+") as file:  # Windows syncs what may be written
        os.fsync(file.fileno())


def partial_path(path: Path) -> Path:
    """Returns the path of an incomplete file or folder, in the same folder."""
    return path.parent / f".partial-{path.name}"  # `/` has no name


def check_output(path: str | os.PathLike, suffixes: Collection[str]) -> None:
    """Raises an InputError for a wrong suffix or a missing folder."""
    path = Path(path)
    if path.suffix.lower() not in suffixes:
        raise InputError(
            f"The name of the file must end in {', '.join(suffixes)}. "
            f"Received: {path}"
        )
    if not path.parent.is_dir():
        raise InputError(f"The folder of {path} does not exist. Create it.")


def check_free(path: str | os.PathLike) -> None:
    """Checks that `atomic_folder` can write a folder: a new or empty one."""
    path = Path(path)
    if not _is_free(path):
        is_run = (path / "config.json").exists()
        raise InputError(
            f"{path} already {'contains a run' if is_run else 'exists'}. "
            "Choose a different output, or remove it first."
        )


def _is_free(path: Path) -> bool:
    """Returns whether a path does not exist, or is an empty folder."""
    path = Path(os.path.realpath(path))  # of a link to itself: the link
    if path.is_dir():
        return not set(os.listdir(path)) - {partial_path(path).name}
    return not os.path.lexists(path)


def read_json(path: str | os.PathLike) -> Any:
    """Returns the value in a file; raises InputError if it is not JSON."""
    with explain_damage(path, "JSON"):
        return json.loads(Path(path).read_bytes())


def read_yaml(
    content: bytes | str, name: str | os.PathLike, as_texts: bool = False
) -> Any:
    """Returns the value of a YAML document; `name` is its name in errors.

    With `as_texts`, numbers and words like `no` stay strings, and what is null
    is left out.
    """
    with explain_missing_packages():
        import yaml
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with explain_damage(name, "YAML"):
        if as_texts:
            document = yaml.compose(content, loader)
            return {} if document is None else _as_texts(document)
        return yaml.load(content, loader)


def _as_texts(node: Any) -> Any:
    """Returns the value of a YAML node."""
    if node.id == "mapping":
        null = "tag:yaml.org,2002:null"
        return {x.value: _as_texts(y) for x, y in node.value if y.tag != null}
    if node.id == "sequence":
        return [_as_texts(item) for item in node.value]
    return node.value


def write_json(path: str | os.PathLike, values: Any) -> None:
    """Writes JSON atomically, with null for numbers that are not finite."""
    finite = json.loads(json.dumps(values), parse_constant=lambda _: None)
    text = json.dumps(finite, indent=2, ensure_ascii=False) + "\n"
    with atomic_write(path) as partial:
        partial.write_text(text, "utf-8")


def reserve_disk_space(path: Path, size: int) -> None:
    """Checks that a new file of a size in bytes fits on the disk."""
    try:
        with open(path, "wb") as file:
            # Where it does not exist (macOS), the writer reports a full disk.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
    finally:
        path.unlink(missing_ok=True)
