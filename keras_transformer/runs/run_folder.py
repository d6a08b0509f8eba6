"""A run: the folder that training writes and every command reads.

docs/guide.md lists its files. Each of them is written atomically.
"""

import dataclasses
import functools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer.config import TransformerConfig
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.runs.weight_files import (
    load_weights,
    read_attribute,
    save_weights,
    step_of,
)
from keras_transformer.support import files
from keras_transformer.support.errors import (
    InputError,
    explain_damage,
    name_file,
)
from keras_transformer.support.files import check_types, read_json
from keras_transformer.tasks import Task, TranslationTask, find_task
from keras_transformer.text import Tokenizer

if TYPE_CHECKING:
    import keras

    from keras_transformer.model import Transformer

_REQUEST = "train.yaml"
_CHECKPOINT = "step-{step:08d}.weights.h5"
_TYPES = {
    **dict.fromkeys(("model", "statistics"), dict),
    **dict.fromkeys(("task", "tokenizer"), str),
    "languages": list,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """A run folder, as described by its `config.json`."""

    path: Path
    config: TransformerConfig  # the architecture
    task: Task
    search: BeamSearch  # the default
    languages: tuple[str | None, str | None]  # source and target, if known
    statistics: dict[str, Any]  # numbers and origin of the training data
    tokenizer_digest: str  # SHA-256

    @staticmethod
    def exists(path: str | os.PathLike) -> bool:
        """Returns whether a folder contains a run."""
        return Path(path, "config.json").exists()

    @classmethod
    def open(cls, path: str | os.PathLike) -> "Run":
        """Reads the description of a run.

        Raises:
            InputError: If it is not a run, or its `config.json` is damaged.
        """
        path = Path(path)
        file = path / "config.json"
        try:
            values = read_json(file)
        except (FileNotFoundError, NotADirectoryError) as error:
            problem = "has no config.json"
            if not path.exists():
                problem = "does not exist"
            raise InputError(
                "A model must be a folder that `keras-transformer train`, "
                "`average`, `import` or `export` wrote, or en-de. Received: "
                f"{path}, which {problem}"
            ) from error
        check_types(file, values, _TYPES)
        task, search = find_task(values["task"]), values.get("search")
        search = search and BeamSearch.from_dict(search, str(file))
        source, target = values["languages"]
        with name_file(file):
            config = TransformerConfig.from_dict(values["model"])
        return cls(
            path=path,
            config=config,
            task=task,
            search=search or task.search,
            languages=(source, target),
            statistics=values["statistics"],
            tokenizer_digest=values["tokenizer"],
        )

    @classmethod
    def create(
        cls,
        path: str | os.PathLike,
        config: TransformerConfig,
        tokenizer: Tokenizer,
        *,
        task: Task | None = None,
        search: BeamSearch | None = None,
        languages: tuple[str | None, str | None] = (None, None),
        statistics: Mapping[str, Any] | None = None,
        request: Mapping[str, Any] | None = None,
    ) -> "Run":
        """Writes the description and the tokenizer of a new run.

        Args:
            path: The folder; `files.atomic_folder` completes it.
            config: The architecture.
            tokenizer: The tokenizer.
            task: Default: translation.
            search: Default: the task's.
            languages: Codes of source and target.
            statistics: Numbers and origin of the training data.
            request: The arguments of its training, if any.
        """
        task = task or TranslationTask()
        run = cls(
            path=Path(path),
            config=config,
            task=task,
            search=search or task.search,
            languages=languages,
            statistics=dict(statistics or {}),
            tokenizer_digest=tokenizer.digest,
        )
        (run.path / "checkpoints").mkdir(parents=True)
        tokenizer.save_files(run.path)
        if request is not None:
            run.save_request(request)
        values = {
            "task": task.name,
            "model": config.to_dict(),
            "search": search and dataclasses.asdict(search),
            "languages": languages,
            "statistics": run.statistics,
            "tokenizer": tokenizer.digest,
        }
        files.write_json(run.path / "config.json", values)
        return run

    def checkpoints(self) -> list[Path]:
        """Returns the numbered checkpoints, oldest first."""
        return sorted(self.path.glob("checkpoints/step-[0-9]*.weights.h5"))

    @property
    def best_path(self) -> Path:
        """The checkpoint with the best validation score."""
        return self.path / "checkpoints" / "best.weights.h5"

    @property
    def state_path(self) -> Path:
        """The training state."""
        return self.path / "state.npz"

    def metadata(self, checkpoint: Path) -> dict[str, Any]:
        """Returns the provenance of a checkpoint, for an export.

        `results` contains its newest scores by split, or by `"test of DATA"`
        for a corpus that is not the run's.
        """
        results: dict[str, Any] = {}
        step = step_of(checkpoint)
        for row in self.results():
            # The name of the best does not identify its step.
            if (row["checkpoint"], row["step"]) == (checkpoint.name, step):
                data, split = row.get("data"), row["split"]
                is_own = data in (None, self.statistics.get("corpus"))
                results[split if is_own else f"{split} of {data}"] = row
        return {
            "run": self.path.resolve().name,
            "checkpoint": checkpoint.name,
            "step": step,
            "task": self.task.name,
            "source": self.languages[0],
            "target": self.languages[1],
            "example": self.statistics.get("example"),
            "statistics": self.statistics,
            "request": self.request,
            "results": results,
        }

    def find_checkpoint(self, name: str | int | None = None) -> Path:
        """Returns the checkpoint of a step, `"best"` or by default `"last"`."""
        checkpoints = self.checkpoints()
        if not checkpoints:
            raise InputError(
                f"{self.path} has no checkpoint yet. Wait, or resume the "
                "training."
            )
        by_name = {str(step_of(path)): path for path in checkpoints}
        if self.best_path.exists():
            by_name["best"] = self.best_path
        by_name["last"] = checkpoints[-1]
        checkpoint = by_name.get("last" if name is None else str(name))
        if checkpoint is None:
            raise InputError(
                f"{self.path} has the checkpoints {', '.join(by_name)}. "
                f"Received: checkpoint={name}"
            )
        return checkpoint

    @functools.cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, checked by its SHA-256."""
        tokenizer = Tokenizer.load(self.path)
        if tokenizer.digest != self.tokenizer_digest:
            raise InputError(
                f"{', '.join(tokenizer.files())} in {self.path} must be the "
                "tokenizer that the run was created with. Received: a "
                "different one. Restore it."
            )
        return tokenizer

    @functools.cached_property
    def request(self) -> dict[str, Any]:
        """The arguments of its training; {} for an imported model."""
        file = self.path / _REQUEST
        if not file.exists():
            return {}
        flags = files.read_yaml(file.read_bytes(), file)
        advice = "Restore it: it repeats the flags of the training."
        with explain_damage(file, "a YAML file of flags", advice):
            return {name.replace("-", "_"): x for name, x in flags.items()}

    def save_request(self, request: Mapping[str, Any]) -> None:
        """Writes `train.yaml`, for `train --config`."""
        import yaml

        values = {name: x for name, x in request.items() if x is not None}
        # Numbers of NumPy become those of Python.
        values = json.loads(json.dumps(values, default=lambda x: x.item()))
        flags = {name.replace("_", "-"): x for name, x in values.items()}
        with files.atomic_write(self.path / _REQUEST) as partial:
            text = yaml.safe_dump(flags, sort_keys=False, allow_unicode=True)
            partial.write_text(text, "utf-8")

    def results(self) -> list[dict[str, Any]]:
        """Returns the scores that `evaluate` measured, the newest last."""
        file = self.path / "results.json"
        return read_json(file) if file.exists() else []

    def load_model(
        self, checkpoint: Path | None = None, dtype: str | None = None
    ) -> "Transformer":
        """Returns the model with the weights of a checkpoint.

        Args:
            checkpoint: Default: the newest.
            dtype: Keras dtype policy; `"bfloat16"` and `"float16"` take half
                the space. Default: Keras' own.

        Raises:
            InputError: If there is no checkpoint, or it is damaged.
        """
        checkpoint = checkpoint or self.find_checkpoint()
        from keras_transformer.model import Transformer

        model = Transformer(self.config, dtype=dtype)
        load_weights(model, checkpoint)
        return model

    def save_checkpoint(
        self, model: "keras.Model", step: int, max_to_keep: int
    ) -> Path:
        """Writes the weights, and deletes all but the newest checkpoints."""
        path = self.path / "checkpoints" / _CHECKPOINT.format(step=step)
        save_weights(model, path, step)
        checkpoints = self.checkpoints()
        # Later steps are from before the training was resumed.
        kept = [x for x in checkpoints if step_of(x) <= step][-max_to_keep:]
        for checkpoint in set(checkpoints).difference(kept):
            checkpoint.unlink()
        return path

    def save_best(self, model: "keras.Model", step: int, score: float) -> None:
        """Writes the weights unless an earlier validation score is better."""
        path = self.best_path
        if path.exists() and score < read_attribute(path, "score"):
            return
        save_weights(model, path, step, score=score)
