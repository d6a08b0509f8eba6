"""A run: the folder that training writes and every command takes.

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

Every file is written atomically.
"""

import dataclasses
import functools
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer.config import TransformerConfig
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.inference.model_folder import (
    ModelFolder,
    find_folder,
)
from keras_transformer.inference.weight_files import (
    load_weights,
    save_weights,
    step_of,
)
from keras_transformer.support import files
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import check_types, read_json
from keras_transformer.tasks import Task, TranslationTask, find_task
from keras_transformer.text import Tokenizer

if TYPE_CHECKING:
    import keras

    from keras_transformer.model import Transformer

logger = logging.getLogger(__name__)

_CHECKPOINT = "step-{step:08d}.weights.h5"
_TYPES = {
    **dict.fromkeys(("model", "recipe", "statistics"), dict),
    **dict.fromkeys(("task", "tokenizer"), str),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run(ModelFolder):
    """A run folder, as its `config.json` describes it."""

    config: TransformerConfig
    statistics: dict[str, Any]  # of the training data
    tokenizer_digest: str
    # In the place of the one in the folder.
    own_tokenizer: Tokenizer | None = dataclasses.field(
        default=None, repr=False, compare=False
    )

    @classmethod
    def read(cls, path: str | os.PathLike) -> "Run":
        """Reads the `config.json` of a run, and checks it."""
        path = find_folder(path)
        file = path / "config.json"
        try:
            values = read_json(file)
        except (FileNotFoundError, NotADirectoryError) as error:
            problem = "has no config.json"
            if not path.exists():
                problem = "does not exist"
            raise InputError(
                "A model must be a folder that `keras-transformer train`, "
                "`average`, `import` or `export` wrote, or the included en-de. "
                f"Received: {path}, which {problem}"
            ) from error
        check_types(file, values, _TYPES)
        search = values.get("search")
        if search is not None:
            search = BeamSearch.from_dict(search, str(file))
        return cls(
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

    @functools.cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, which must be the one that the run began with."""
        if self.own_tokenizer is not None:
            return self.own_tokenizer
        tokenizer = Tokenizer.load(self.path)
        if tokenizer.digest != self.tokenizer_digest:
            raise InputError(
                f"{', '.join(tokenizer.files())} in {self.path} must be the "
                "tokenizer that the run was created with. Received: a "
                "different one. Restore it."
            )
        return tokenizer

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
            target_language: As in `Tokenizer.translating_to`. Default:
                that of the run.
            tag: As in `Tokenizer.with_tag`.

        Raises:
            InputError: If it is not a run, or its vocabulary does not have
                the language or the tag.
        """
        run = cls.read(path)
        recipe, tokenizer = run.recipe, run.tokenizer
        if target_language is not None:
            tokenizer = tokenizer.translating_to(target_language)
            recipe = {**recipe, "target": target_language.strip("<>")}
        if tag is not None:
            tokenizer = tokenizer.with_tag(tag)
        return dataclasses.replace(
            run,
            recipe=recipe,
            own_tokenizer=tokenizer,
            tokenizer_digest=tokenizer.digest,
        )

    @classmethod
    def create(
        cls,
        path: str | os.PathLike,
        config: TransformerConfig,
        recipe: dict[str, Any],
        tokenizer: Tokenizer,
        statistics: dict[str, Any] | None = None,
        model: "keras.Model | None" = None,
        step: int = 0,
        task: Task | None = None,
        search: BeamSearch | None = None,
    ) -> "Run":
        """Creates the folder of a new run.

        If a model is given, its weights are written as the checkpoint of
        `step`. The other arguments are those of `Run`; the task is translation
        by default.

        Raises:
            InputError: If the folder exists and is not empty.
        """
        with files.atomic_folder(path) as folder:
            run = cls(
                path=folder,
                config=config,
                recipe=recipe,
                own_tokenizer=tokenizer,
                tokenizer_digest=tokenizer.digest,
                statistics=statistics or {},
                task=task or TranslationTask(),
                search=search,
            )
            run.write()
            if model is not None:
                run.save_checkpoint(model, step, max_to_keep=1)
        return dataclasses.replace(run, path=Path(path))

    def write(self) -> None:
        """Writes the description of a new run into its folder."""
        (self.path / "checkpoints").mkdir()
        self.tokenizer.save_files(self.path)
        self._write_config()

    def _write_config(self) -> None:
        values = {
            "task": self.task.name,
            "model": self.config.to_dict(),
            "recipe": self.recipe,
            "statistics": self.statistics,
            "tokenizer": self.tokenizer.digest,
        }
        if self.search is not None:
            values["search"] = dataclasses.asdict(self.search)
        files.write_json(self.path / "config.json", values)

    def with_recipe(self, recipe: dict[str, Any]) -> "Run":
        """Returns the run with a recipe, which is recorded in the folder."""
        run = dataclasses.replace(self, recipe=recipe)
        if run != self:
            run._write_config()
        return run

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
        load_weights(model, checkpoint)
        return model

    def save_checkpoint(
        self, model: "keras.Model", step: int, max_to_keep: int
    ) -> Path:
        """Writes the weights, and deletes all but the newest checkpoints.

        One of a later step, which training wrote before it resumed from an
        earlier state, is deleted too.
        """
        path = self.path / "checkpoints" / _CHECKPOINT.format(step=step)
        save_weights(model, path, step)
        checkpoints = self.checkpoints()
        kept = [x for x in checkpoints if step_of(x) <= step][-max_to_keep:]
        for checkpoint in checkpoints:
            if checkpoint not in kept:
                checkpoint.unlink()
        return path

    def save_best(self, model: "keras.Model", step: int, score: float) -> None:
        """Writes the weights if their validation score is the best so far."""
        import h5py

        if self.best_path.exists():
            try:
                with h5py.File(self.best_path) as file:
                    if score <= file.attrs["score"]:
                        return
            except OSError as error:
                # It must not end every training that is resumed here.
                logger.warning(
                    f"{self.best_path} is damaged ({error}). It is "
                    f"replaced by the weights of step {step:,}."
                )
        save_weights(model, self.best_path, step, score=score)


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


def check_same_tokenizer(runs: Sequence[Run]) -> None:
    """Raises InputError unless the models of runs can translate together."""
    if len({(run.tokenizer_digest, run.task.name) for run in runs}) != 1:
        raise InputError(
            "Runs that translate together must have the same task and "
            "tokenizer. Received: "
            f"{', '.join(str(run.path) for run in runs) or 'no run'}"
        )
