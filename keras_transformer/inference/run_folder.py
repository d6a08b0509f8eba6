"""Reads a run: the folder that training wrote and every command takes.

config.json              task, architecture, recipe, and perhaps a search
train.yaml               the flags of the training
tokenizer.model          the vocabulary, which may have several files
data/                    the prepared corpus, unless the user named one
checkpoints/step-N.weights.h5, checkpoints/best.weights.h5
state.npz                what training resumes from
log.csv                  one row per epoch
lock, results.lock       held by the process that trains, that evaluates
tensorboard/             the same figures, and samples, for TensorBoard
results.json             what `evaluate` measured

`keras_transformer/train/training_run.py` writes it.
"""

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer.config import TransformerConfig
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.inference.model_folder import (
    ModelFolder,
    find_folder,
)
from keras_transformer.inference.weights_checksum import check_checksum
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import check_types, read_json
from keras_transformer.tasks import find_task
from keras_transformer.text import Vocabulary, open_vocabulary

if TYPE_CHECKING:
    from keras_transformer.model import Transformer

_OF_EXPORTS = ("saved_model.pb", "keras_transformer.json")
_TYPES = {
    **dict.fromkeys(("model", "recipe", "statistics"), dict),
    **dict.fromkeys(("task", "tokenizer"), str),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunFolder(ModelFolder):
    """The description of a run folder, which its `config.json` has."""

    config: TransformerConfig
    statistics: dict[str, Any]  # of the training data
    tokenizer_digest: str

    @classmethod
    def read(cls, path: str | os.PathLike) -> "RunFolder":
        """Reads the `config.json` of a run, and checks it."""
        path = Path(path)
        file = path / "config.json"
        try:
            values = read_json(file)
        except (FileNotFoundError, NotADirectoryError) as error:
            if path != find_folder(path):
                raise InputError(
                    f"This needs a run. Received: {path}, the included model, "
                    "which works with translate, evaluate, score and serve."
                ) from error
            if not path.exists():
                raise InputError(
                    f"{path} does not exist. The included model is en-de."
                ) from error
            problem = "is a file" if path.is_file() else "has none"
            if any((path / name).exists() for name in _OF_EXPORTS):
                problem = "is an export, which `kt.open_translator` opens"
            raise InputError(
                "A run folder, which `keras-transformer train`, `average` and "
                "`import` write, has a config.json, a SavedModel a "
                "saved_model.pb, and a folder exported for LiteRT a "
                f"keras_transformer.json. Received: {path}, which {problem}"
            ) from error
        check_types(file, values, _TYPES)
        search = values.get("search")
        if search is not None:
            search = BeamSearch.from_dict(search, str(file))
        return RunFolder(
            path=path,
            config=TransformerConfig.from_dict(values["model"]),
            recipe=values["recipe"],
            statistics=values["statistics"],
            task=find_task(values["task"]),
            search=search,
            tokenizer_digest=values["tokenizer"],
        )

    @property
    def default_search(self) -> BeamSearch:
        return self.search or self.task.search

    def checkpoints(self) -> list[Path]:
        """Returns the numbered checkpoints, oldest first."""
        return sorted(self.path.glob("checkpoints/step-[0-9]*.weights.h5"))

    @property
    def best_path(self) -> Path:
        """Path of the checkpoint with the best validation score."""
        return self.path / "checkpoints" / "best.weights.h5"

    @property
    def state_path(self) -> Path:
        """Path of the training state."""
        return self.path / "state.npz"

    @property
    def log_path(self) -> Path:
        """Path of the log, with a row per epoch."""
        return self.path / "log.csv"

    def metadata(self, checkpoint: Path) -> dict[str, Any]:
        """Returns the provenance of a checkpoint, for an export.

        `results` are the newest figures of `results.json` for it, by split,
        or `"test of DATA"` where these are not the run's.
        """
        results: dict[str, Any] = {}
        step = step_of(checkpoint)
        for row in read_results(self.path / "results.json"):
            # A better checkpoint replaces the best under the same name.
            if (row["checkpoint"], row["step"]) == (checkpoint.name, step):
                data, split = row.get("data"), row["split"]
                is_own = data in (None, self.recipe.get("data"))
                results[split if is_own else f"{split} of {data}"] = row
        return {
            "run": self.path.resolve().name,
            "checkpoint": checkpoint.name,
            "step": step,
            "task": self.task.name,
            "source": self.recipe.get("source"),
            "target": self.recipe.get("target"),
            "example": self.statistics.get("example"),
            "recipe": self.recipe,
            "results": results,
        }

    def find_checkpoint(self, name: str | int | None = None) -> Path:
        """Returns the checkpoint of a step, `"best"` or by default `"last"`."""
        checkpoints = self.checkpoints()
        if not checkpoints:
            raise InputError(
                f"{self.path} has no checkpoint yet: it is still training, or "
                "was stopped before its first checkpoint. Wait, or start the "
                "same command again."
            )
        by_name = {str(step_of(path)): path for path in checkpoints}
        if self.best_path.exists():
            by_name["best"] = self.best_path
        by_name["last"] = checkpoints[-1]
        checkpoint = by_name.get("last" if name is None else str(name))
        if checkpoint is None:
            reason = ""
            if name == "best":
                reason = ". It is written by training with a split valid"
            raise InputError(
                f"{self.path} has the checkpoints {', '.join(by_name)}. "
                f"Received: checkpoint={name}{reason}"
            )
        return checkpoint

    @property
    def step(self) -> int:
        """Updates of the newest checkpoint; 0 if there is none."""
        return max(map(step_of, self.checkpoints()), default=0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run(RunFolder):
    """A run folder, with its tokenizer.

    Args:
        tokenizer: The tokenizer.
    """

    tokenizer: Vocabulary

    @classmethod
    def open(
        cls,
        path: str | os.PathLike,
        target_language: str | None = None,
        tag: str | None = None,
    ) -> "Run":
        """Reads the folder of a run.

        Args:
            path: The folder.
            target_language: As in `LookupVocabulary.translating_to`. Default:
                that of the run.
            tag: As in `Tokenizer.with_tag`.

        Raises:
            InputError: If it is not a run, or its vocabulary does not have
                the language or the tag.
        """
        values = dict(vars(cls.read(path)))
        digest = values["tokenizer_digest"]
        tokenizer = open_vocabulary(path)
        if tokenizer.digest != digest:
            raise InputError(
                f"{', '.join(tokenizer.files())} in {path} must be the "
                "tokenizer that the run was created with. Received: a "
                "different one. Restore it."
            )
        if target_language is not None:
            tokenizer = tokenizer.translating_to(target_language)
            target = {"target": target_language.strip("<>")}
            values["recipe"] = {**values["recipe"], **target}
        if tag is not None:
            tokenizer = tokenizer.with_tag(tag)
        values["tokenizer_digest"] = tokenizer.digest
        return cls(**values, tokenizer=tokenizer)

    def load_model(
        self, checkpoint: Path | None = None, dtype: str | None = None
    ) -> "Transformer":
        """Returns the model with the weights of a checkpoint.

        Args:
            checkpoint: Path of the checkpoint. Default: the newest.
            dtype: Keras dtype policy, to which the weights are converted:
                `"bfloat16"` and `"float16"` take half the space. Default:
                Keras' own default.

        Raises:
            InputError: If there is no checkpoint, or it cannot be read.
        """
        checkpoint = checkpoint or self.find_checkpoint()
        from keras_transformer.model import Transformer

        model = Transformer(self.config, dtype=dtype)
        self.load_weights(model, checkpoint)
        return model

    def load_weights(self, model: "Transformer", checkpoint: Path) -> None:
        """Loads the weights of a checkpoint into a model.

        Raises:
            InputError: If it cannot be read, does not fit the model, or has
                weights that are not finite.
        """
        import h5py

        from keras_transformer.weights import not_finite

        try:
            with h5py.File(checkpoint) as file:
                check_checksum(file)
            model.load_weights(checkpoint)
            invalid = not_finite(model.weights)
            if invalid:
                raise ValueError(f"NaN or infinity in {invalid[0]}")
        except PermissionError:
            raise  # which is no damage
        # A damaged file may raise anything.
        except Exception as error:
            raise InputError(
                f"{checkpoint} must contain the weights of the model in "
                f"config.json. Received: {error!s:.200}. It may be damaged: "
                "delete it to use the one before."
            ) from error


def read_results(file: Path) -> list[dict[str, Any]]:
    """Returns the results that `evaluate` recorded; [] without the file."""
    try:
        rows = read_json(file) if file.exists() else []
        rows = rows if isinstance(rows, list) else [rows]
        for row in rows:
            check_types(file, row, dict(checkpoint=str, step=int, split=str))
    except InputError as error:
        raise InputError(f"{error} Rename it, and evaluate again.") from error
    return rows


def check_same_tokenizer(runs: Sequence[RunFolder]) -> None:
    """Raises InputError unless the models of runs can translate together."""
    if len({(run.tokenizer_digest, run.task.name) for run in runs}) != 1:
        raise InputError(
            "Runs that translate together must have the same task and "
            "tokenizer. Received: "
            f"{', '.join(str(run.path) for run in runs) or 'no run'}"
        )


def step_of(checkpoint: Path) -> int:
    """Returns the number of updates after which a checkpoint was written."""
    numbered = re.match(r"step-(\d+)", checkpoint.name)
    if numbered:
        return int(numbered[1])
    import h5py

    with h5py.File(checkpoint) as file:
        return int(file.attrs["step"])
