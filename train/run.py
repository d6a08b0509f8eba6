"""A training run on disk: a folder that every other command takes.

config.json              architecture and recipe
tokenizer.model          SentencePiece model
checkpoints/step-N.weights.h5
log.csv                  a line an epoch
results.json             what `evaluate` measured
"""

import dataclasses
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import keras

from keras_transformer.config import TransformerConfig
from keras_transformer.errors import InputError
from keras_transformer.model import Transformer
from keras_transformer.text import Tokenizer

FORMAT = 1
_CHECKPOINT = "step-{step:08d}.weights.h5"


@dataclasses.dataclass(frozen=True)
class Run:
    """A run folder.

    Args:
        path: The folder.
        config: The architecture.
        recipe: How it is trained: plain values, as `train` received them.
        tokenizer: The tokenizer.
    """

    path: Path
    config: TransformerConfig
    recipe: dict[str, Any]
    tokenizer: Tokenizer

    @classmethod
    def create(
        cls,
        path: str | os.PathLike,
        config: TransformerConfig,
        recipe: dict[str, Any],
        tokenizer: Tokenizer,
    ) -> "Run":
        """Makes the folder of a new run.

        Raises:
            InputError: If the folder exists and is not empty.
        """
        path = Path(path).resolve()
        check_is_free(path)
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            (partial / "checkpoints").mkdir(parents=True)
            tokenizer.save(partial / "tokenizer.model")
            write_json(
                partial / "config.json",
                {
                    "format": FORMAT,
                    "model": config.to_dict(),
                    "recipe": recipe,
                },
            )
            os.replace(partial, path)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return cls(path, config, recipe, tokenizer)

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
        if not isinstance(values.get("model"), dict):
            raise InputError(
                f"{path / 'config.json'} must have the model's settings. "
                f"Received: {sorted(values)}"
            )
        return cls(
            path,
            TransformerConfig.from_dict(values["model"]),
            values.get("recipe", {}),
            Tokenizer.load(path / "tokenizer.model"),
        )

    def checkpoints(self) -> list[Path]:
        """Returns the checkpoints, oldest first."""
        found = (self.path / "checkpoints").glob("step-*.weights.h5")
        return sorted(found)

    def save_checkpoint(self, model: keras.Model, step: int, keep: int) -> Path:
        """Writes the weights; they appear whole or not at all.

        Args:
            model: The model.
            step: Updates so far.
            keep: Checkpoints kept; older ones are deleted.
        """
        path = self.path / "checkpoints" / _CHECKPOINT.format(step=step)
        partial = path.with_name(f".partial-{path.name}")
        try:
            model.save_weights(partial, overwrite=True)
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
        for old in self.checkpoints()[:-keep]:
            old.unlink()
        return path

    def load_model(self, checkpoint: Path | None = None) -> Transformer:
        """Returns the model with the weights of a checkpoint.

        Args:
            checkpoint: One of `checkpoints()`. Default: the newest.

        Raises:
            InputError: If there is no checkpoint, or it cannot be read.
        """
        checkpoints = self.checkpoints()
        if not checkpoints:
            raise InputError(
                f"{self.path} has no checkpoint: its training ended before "
                "the first. Train it again into another folder."
            )
        model = Transformer(self.config)
        checkpoint = checkpoint or checkpoints[-1]
        try:
            model.load_weights(checkpoint)
        except (OSError, ValueError, KeyError) as error:
            raise InputError(
                f"{checkpoint} must hold the weights of the model in "
                f"config.json. Received: {str(error).splitlines()[0]} It may "
                "be damaged: delete it, and the one before is used."
            ) from error
        return model

    @property
    def step(self) -> int:
        """Updates of the newest checkpoint; 0 if there is none."""
        checkpoints = self.checkpoints()
        if not checkpoints:
            return 0
        return int(re.search(r"step-(\d+)", checkpoints[-1].name)[1])


def check_is_free(path: str | os.PathLike) -> None:
    """Raises InputError if there is something at `path` already."""
    path = Path(path).resolve()
    parent = path.parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise InputError(f"{parent} is a file, so {path} cannot be made.")
    if path.is_dir() and not any(path.iterdir()):
        return
    if path.exists():
        what = "a run" if (path / "config.json").exists() else "something"
        raise InputError(
            f"{path} already holds {what}, and nothing is overwritten. "
            "Choose another output, or remove it first."
        )


def write_json(path: str | os.PathLike, values: Any) -> None:
    """Writes JSON; the file appears whole or not at all."""
    path = Path(path)
    partial = path.with_name(f".partial-{path.name}")
    partial.write_text(
        json.dumps(values, indent=2, ensure_ascii=False) + "\n", "utf-8"
    )
    os.replace(partial, path)
