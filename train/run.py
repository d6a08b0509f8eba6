"""Writes a run folder; every file in it is written atomically.

`keras_transformer/inference/run.py` lists the files and reads them.
"""

import contextlib
import dataclasses
import errno
import fcntl
import math
import os
import shutil
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import keras

from keras_transformer.config import TransformerConfig
from keras_transformer.decoding.search import BeamSearch
from keras_transformer.inference.run import FORMAT, Run, step_of
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import (
    atomic_write,
    check_creatable,
    reserve_disk_space,
    write_json,
)
from keras_transformer.tasks import Task, TranslationTask
from keras_transformer.text import VOCABULARY_FILES, Vocabulary

# Marks a new run that has no config.json yet: it may be started again.
_UNFINISHED = ".partial-run"
_CHECKPOINT = "step-{step:08d}.weights.h5"
_HDF5_OVERHEAD = 8 * 1024  # bytes per variable; 2 KiB were measured
# What a file system without locks answers, such as Lustre by default.
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL)


class TrainingRun(Run):
    """A run folder that can be written to."""

    @classmethod
    def create(
        cls,
        path: str | os.PathLike,
        config: TransformerConfig,
        recipe: dict[str, Any],
        tokenizer: Vocabulary,
        statistics: dict[str, Any] | None = None,
        model: keras.Model | None = None,
        step: int = 0,
        task: Task | None = None,
        search: BeamSearch | None = None,
    ) -> "TrainingRun":
        """Creates the folder of a new run.

        If a model is given, its weights are written as the checkpoint of
        `step`. The other arguments are those of `Run`; the task is translation
        by default.

        Raises:
            InputError: If the folder exists and is not empty.
        """
        path = Path(path)
        check_free(path)
        run = cls(
            path,
            config,
            recipe,
            tokenizer,
            statistics or {},
            uuid.uuid4().hex,
            task or TranslationTask(),
            search,
        )
        path.mkdir(parents=True, exist_ok=True)
        (path / _UNFINISHED).touch()
        shutil.rmtree(path / "checkpoints", ignore_errors=True)
        (path / "checkpoints").mkdir()
        tokenizer.save_files(path)
        if model is not None:
            run.save_checkpoint(model, step, max_to_keep=1)
        # Last: a folder is a run as soon as it has a config.json.
        run._write_config()
        (path / _UNFINISHED).unlink()
        return run

    def _write_config(self) -> None:
        values = {
            "format": FORMAT,
            "id": self.id,
            "task": self.task.name,
            "model": self.config.to_dict(),
            "recipe": self.recipe,
            "statistics": self.statistics,
            "tokenizer": self.tokenizer.digest,
        }
        if self.search is not None:
            values["search"] = dataclasses.asdict(self.search)
        write_json(self.path / "config.json", values)

    def with_recipe(self, recipe: dict[str, Any]) -> "TrainingRun":
        """Returns the run with a recipe, which is recorded in the folder."""
        run = dataclasses.replace(self, recipe=recipe)
        if run != self:
            run._write_config()
        return run

    def save_checkpoint(
        self, model: keras.Model, step: int, max_to_keep: int
    ) -> Path:
        """Writes the weights, and deletes all but the newest checkpoints.

        One of a later step, which training wrote before it resumed from an
        earlier state, is deleted too.
        """
        path = self.path / "checkpoints" / _CHECKPOINT.format(step=step)
        self._save_weights(model, path, step)
        found = self.checkpoints()
        kept = [file for file in found if step_of(file) <= step][-max_to_keep:]
        for file in found:
            if file not in kept:
                file.unlink()
        return path

    def save_best(self, model: keras.Model, step: int, score: float) -> None:
        """Writes the weights if their validation score is the best so far."""
        if self.best_path.exists():
            try:
                with h5py.File(self.best_path) as file:
                    if score <= file.attrs.get("score", -1.0):
                        return
            except OSError as error:
                # It must not end every training that is resumed here.
                print(
                    f"Warning: {self.best_path} is damaged ({error}). It is "
                    f"replaced by the weights of step {step:,}.",
                    file=sys.stderr,
                )
        self._save_weights(model, self.best_path, step, score=score)

    def _save_weights(
        self, model: keras.Model, path: Path, step: int, **attributes: float
    ) -> None:
        path.parent.mkdir(exist_ok=True)
        size = sum(4 * math.prod(w.shape) for w in model.weights)
        with atomic_write(path) as partial:
            # HDF5 aborts the process if the disk is full when it writes.
            reserve_disk_space(
                partial, size + _HDF5_OVERHEAD * len(model.weights)
            )
            # The optimizer, twice as large, is in the training state.
            optimizer = getattr(model, "optimizer", None)
            keras.saving.save_weights(
                model, partial, overwrite=True, objects_to_skip=[optimizer]
            )
            with h5py.File(partial, "a") as file:
                file.attrs.update(run=self.id, step=step, **attributes)


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
            if _UNFINISHED in names:
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
