"""Reads a run: the folder that training wrote and every command takes.

config.json              architecture and recipe
tokenizer.model          SentencePiece model
checkpoints/step-N.weights.h5, checkpoints/best.weights.h5
state.npz                what training resumes from
log.csv                  one row per epoch
lock                     held by the process that trains
tensorboard/             the same figures, and samples, for TensorBoard
results.json             what `evaluate` measured

`keras_transformer/train/run.py` writes it.
"""

import dataclasses
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import h5py

from keras_transformer.config import TransformerConfig
from keras_transformer.errors import InputError
from keras_transformer.model import Transformer
from keras_transformer.text import Tokenizer

FORMAT = 2


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
        digest = tokenizer_digest(tokenizer)
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


def tokenizer_digest(tokenizer: Tokenizer) -> str:
    """Returns the SHA-256 of a tokenizer's model, in hexadecimal."""
    return hashlib.sha256(tokenizer.model).hexdigest()


def step_of(checkpoint: Path) -> int:
    """Returns after how many updates a checkpoint was written."""
    numbered = re.match(r"step-(\d+)", checkpoint.name)
    if numbered:
        return int(numbered[1])
    with h5py.File(checkpoint) as file:
        return int(file.attrs["step"])
