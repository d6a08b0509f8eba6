"""Writes a run folder, atomically; `keras_transformer/run.py` reads it."""

import contextlib
import dataclasses
import fcntl
import json
import math
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import keras

from keras_transformer.config import TransformerConfig
from keras_transformer.errors import InputError
from keras_transformer.files import atomic_write, reserve_disk_space
from keras_transformer.run import FORMAT, Run, tokenizer_digest
from keras_transformer.text import Tokenizer

_CHECKPOINT = "step-{step:08d}.weights.h5"
_HDF5_OVERHEAD = 8 * 1024  # bytes per variable; 2 KiB were measured


class TrainingRun(Run):
    """A run that training writes to."""

    @classmethod
    def create(
        cls,
        path: str | os.PathLike,
        config: TransformerConfig,
        recipe: dict[str, Any],
        tokenizer: Tokenizer,
        survey: dict[str, Any] | None = None,
        model: keras.Model | None = None,
        step: int = 0,
    ) -> "TrainingRun":
        """Makes the folder of a new run.

        Args:
            path: The folder.
            config: The architecture.
            recipe: How it is trained.
            tokenizer: The tokenizer.
            survey: What training sees of the data.
            model: If given, it has a checkpoint from the beginning.
            step: Updates of that checkpoint.

        Raises:
            InputError: If the folder exists and is not empty.
        """
        path = Path(path)
        check_is_free(path)
        run = cls(
            path, config, recipe, tokenizer, survey or {}, uuid.uuid4().hex
        )
        (path / "checkpoints").mkdir(parents=True, exist_ok=True)
        tokenizer.save(path / "tokenizer.model")
        if model is not None:
            run.save_checkpoint(model, step, keep=1)
        # The last: only a folder with a config.json is a run.
        run._write_config()
        return run

    def _write_config(self) -> None:
        write_json(
            self.path / "config.json",
            {
                "format": FORMAT,
                "id": self.id,
                "model": self.config.to_dict(),
                "recipe": self.recipe,
                "survey": self.survey,
                "tokenizer": tokenizer_digest(self.tokenizer),
            },
        )

    def with_recipe(self, recipe: dict[str, Any]) -> "TrainingRun":
        """Records another recipe for the run, and returns it."""
        run = dataclasses.replace(self, recipe=recipe)
        run._write_config()
        return run

    @contextlib.contextmanager
    def locked_results(self) -> Iterator[None]:
        """Waits until no other process writes results into this folder."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def save_checkpoint(self, model: keras.Model, step: int, keep: int) -> Path:
        """Writes the weights; they appear whole or not at all.

        Args:
            model: The model.
            step: Updates so far.
            keep: Checkpoints kept; older ones are deleted.
        """
        path = self.path / "checkpoints" / _CHECKPOINT.format(step=step)
        self._save_weights(model, path, step)
        for old in self.checkpoints()[:-keep]:
            old.unlink()
        return path

    def save_best(self, model: keras.Model, step: int, bleu: float) -> None:
        """Writes the weights if they have the best validation BLEU so far."""
        if self.best_path.exists():
            with h5py.File(self.best_path) as file:
                if bleu <= file.attrs.get("bleu", -1.0):
                    return
        self._save_weights(model, self.best_path, step, bleu=bleu)

    def _save_weights(
        self, model: keras.Model, path: Path, step: int, **attributes: float
    ) -> None:
        path.parent.mkdir(exist_ok=True)
        size = sum(4 * math.prod(w.shape) for w in model.weights)
        with atomic_write(path) as partial:
            # HDF5 ends the process if the disk gets full while it writes.
            reserve_disk_space(
                partial, size + _HDF5_OVERHEAD * len(model.weights)
            )
            model.save_weights(partial, overwrite=True)
            with h5py.File(partial, "a") as file:
                file.attrs.update(run=self.id, step=step, **attributes)


@contextlib.contextmanager
def locked(path: str | os.PathLike) -> Iterator[None]:
    """Keeps other processes from training in a folder, which it makes.

    Raises:
        InputError: If one does so already.
    """
    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    with open(path / "lock", "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                f"Another process already trains in {path}. Wait for its "
                "end, or choose another output."
            ) from error
        yield


def check_is_free(path: str | os.PathLike) -> None:
    """Raises InputError if a run cannot be made at `path`."""
    path = Path(path)
    there = path.resolve()
    while not there.exists():
        there = there.parent
    if there.is_dir() and not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{path} cannot be made: {there} is read-only.")
    if not path.exists():
        if not there.is_dir():
            raise InputError(f"{there} is a file, so {path} cannot be made.")
        return
    if path.is_dir():
        # Or what a process leaves that ends before the config.json is there.
        begun = [set(), {"checkpoints"}, {"checkpoints", "tokenizer.model"}]
        found, checkpoints = _whole(path), _whole(path / "checkpoints")
        if found - {"lock"} in begun and not checkpoints:
            return
    what = "a run" if (path / "config.json").exists() else "something"
    raise InputError(
        f"{path} already holds {what}, and nothing is overwritten. "
        "Choose another output, or remove it first."
    )


def _whole(folder: Path) -> set[str]:
    """Returns what is in a folder but files that were never finished."""
    names = {entry.name for entry in folder.glob("*")}
    return {name for name in names if not name.startswith(".partial-")}


def write_json(path: str | os.PathLike, values: Any) -> None:
    """Writes JSON; the file appears whole or not at all."""
    text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    with atomic_write(path) as partial:
        partial.write_text(text, "utf-8")
