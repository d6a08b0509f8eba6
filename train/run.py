"""A training run on disk: a folder that every other command takes.

config.json              architecture and recipe
tokenizer.model          SentencePiece model
checkpoints/step-N.weights.h5, checkpoints/best.weights.h5
state.npz                all that training goes on from
log.csv                  a line an epoch
lock                     held by the process that trains
tensorboard/             the same, and samples, for TensorBoard
results.json             what `evaluate` measured
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import math
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import keras

from keras_transformer.config import TransformerConfig
from keras_transformer.errors import InputError
from keras_transformer.files import check_room, replacing
from keras_transformer.model import Transformer
from keras_transformer.text import Tokenizer

FORMAT = 1
_CHECKPOINT = "step-{step:08d}.weights.h5"
_HDF5_OVERHEAD = 8 * 1024  # bytes a variable; 2 KiB were measured


@dataclasses.dataclass(frozen=True)
class Run:
    """A run folder.

    Args:
        path: The folder.
        config: The architecture.
        recipe: How it is trained: plain values, as `train` received them.
        tokenizer: The tokenizer.
        survey: What training sees of the data, and begins with.
        id: What its checkpoints are known by; "" in runs of old versions.
    """

    path: Path
    config: TransformerConfig
    recipe: dict[str, Any]
    tokenizer: Tokenizer
    survey: dict[str, Any] = dataclasses.field(default_factory=dict)
    id: str = ""

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
    ) -> "Run":
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
                "tokenizer": _digest(self.tokenizer),
            },
        )

    def with_recipe(self, recipe: dict[str, Any]) -> "Run":
        """Records another recipe for the run, and returns it."""
        run = dataclasses.replace(self, recipe=recipe)
        run._write_config()
        return run

    @classmethod
    def open(cls, path: str | os.PathLike) -> "Run":
        """Reads the folder of a run.

        Raises:
            InputError: If it is none, or of a format that is not known.
        """
        path = Path(path)
        try:
            values = json.loads((path / "config.json").read_text("utf-8"))
        except OSError as error:
            raise InputError(
                "A run folder, as `keras-transformer train` writes it, has a "
                f"config.json. Received: {path} ({error.strerror})"
            ) from error
        except ValueError as error:
            raise InputError(
                f"{path / 'config.json'} must be JSON. Received: {error}"
            ) from error
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            found = values.get("format") if isinstance(values, dict) else None
            raise InputError(
                f"{path} must be a run of format {FORMAT}. Received: "
                f"format={found!r}. It was written by another version."
            )
        for name in ("model", "recipe", "survey"):
            if not isinstance(values.get(name), dict):
                raise InputError(
                    f"{path / 'config.json'} must have an object {name}. "
                    f"Received: {name}={values.get(name)!r}"
                )
        tokenizer = Tokenizer.load(path / "tokenizer.model")
        digest = _digest(tokenizer)
        recorded = values.get("tokenizer", digest)
        if digest != recorded:
            raise InputError(
                f"{path / 'tokenizer.model'} must be the tokenizer that the "
                f"run began with, of SHA-256 {recorded[:12]}. Received: "
                f"{digest[:12]}. Put the right one back."
            )
        return cls(
            path,
            TransformerConfig.from_dict(values["model"]),
            values["recipe"],
            tokenizer,
            values["survey"],
            values.get("id", ""),
        )

    @contextlib.contextmanager
    def locked_results(self) -> Iterator[None]:
        """Waits until no other process writes results into this folder."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def checkpoints(self) -> list[Path]:
        """Returns the checkpoints, oldest first."""
        found = (self.path / "checkpoints").glob("step-[0-9]*.weights.h5")
        return sorted(found)

    @property
    def best_path(self) -> Path:
        """Where the checkpoint with the best validation BLEU is."""
        return self.path / "checkpoints" / "best.weights.h5"

    @property
    def state_path(self) -> Path:
        """Where the state of training is."""
        return self.path / "state.npz"

    @property
    def log_path(self) -> Path:
        """Where the figures of every epoch are."""
        return self.path / "log.csv"

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
        with replacing(path) as partial:
            # HDF5 ends the process if the disk gets full while it writes.
            check_room(partial, size + _HDF5_OVERHEAD * len(model.weights))
            model.save_weights(partial, overwrite=True)
            with h5py.File(partial, "a") as file:
                file.attrs.update(run=self.id, step=step, **attributes)

    def find_checkpoint(self, name: str | int | None = None) -> Path:
        """Returns the checkpoint that a user names.

        Args:
            name: A step, `"best"` (by validation BLEU) or `"last"`, which is
                also the default.

        Raises:
            InputError: If there is none of that name.
        """
        found = self.checkpoints()
        if not found:
            raise InputError(
                f"{self.path} has no checkpoint: its training ended before "
                "the first. Start the same command again."
            )
        named = {str(step_of(path)): path for path in found}
        if self.best_path.exists():
            named["best"] = self.best_path
        named["last"] = found[-1]
        if str(name or "last") not in named:
            raise InputError(
                f"{self.path} has the checkpoints {', '.join(named)}. "
                f"Received: checkpoint={name}"
            )
        return named[str(name or "last")]

    def load_model(self, checkpoint: Path | None = None) -> Transformer:
        """Returns the model with the weights of a checkpoint.

        Args:
            checkpoint: Default: the newest.

        Raises:
            InputError: If there is no checkpoint, or it cannot be read.
        """
        model = Transformer(self.config)
        self.load_weights(model, checkpoint or self.find_checkpoint())
        return model

    def load_weights(self, model: Transformer, checkpoint: Path) -> None:
        """Gives a model the weights of a checkpoint.

        Raises:
            InputError: If it cannot be read, or is another run's.
        """
        try:
            with h5py.File(checkpoint) as file:
                owner = file.attrs.get("run", self.id)
            model.load_weights(checkpoint)
        except (OSError, ValueError, KeyError) as error:
            raise InputError(
                f"{checkpoint} must hold the weights of the model in "
                f"config.json. Received: {str(error).splitlines()[0]} It may "
                "be damaged: delete it, and the one before is used."
            ) from error
        if owner != self.id:
            raise InputError(
                f"{checkpoint} must be of the run {self.id[:8]}, in whose "
                f"folder it is. Received: one of the run {owner[:8]}. Put it "
                "back where it belongs."
            )

    @property
    def step(self) -> int:
        """Updates of the newest checkpoint; 0 if there is none."""
        checkpoints = self.checkpoints()
        if not checkpoints:
            return 0
        return step_of(checkpoints[-1])


def _digest(tokenizer: Tokenizer) -> str:
    return hashlib.sha256(tokenizer.model).hexdigest()


def step_of(checkpoint: Path) -> int:
    """Returns after how many updates a checkpoint was written."""
    numbered = re.match(r"step-(\d+)", checkpoint.name)
    if numbered:
        return int(numbered[1])
    with h5py.File(checkpoint) as file:
        return int(file.attrs["step"])


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
    with replacing(path) as partial:
        partial.write_text(text, "utf-8")
