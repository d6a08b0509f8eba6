"""A run: the folder that training writes and every command reads.

docs/guide.md lists its files. Each of them is written atomically.
"""

import dataclasses
import functools
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer.config import TransformerConfig
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.runs import weight_files
from keras_transformer.runs.weight_files import step_of
from keras_transformer.support import errors, files
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import Task, TranslationTask, find_task
from keras_transformer.text import Tokenizer

if TYPE_CHECKING:
    import keras

    from keras_transformer.model import Transformer

# The models that come with the package, in folders of their names.
INCLUDED = Path(__file__).resolve().parents[1] / "models"

_warn_once = functools.cache(logging.getLogger(__name__).warning)


def find_folder(model: str | os.PathLike) -> Path:
    """Returns the folder of a model, which may be given by its name.

    A name is the string of an included model or, as for `kt.convert.read`, of
    one on the Hugging Face Hub. A folder with the name of an included model is
    `"./en-de"` or a `Path`.
    """
    path = Path(model)
    if isinstance(model, str) and model in os.listdir(INCLUDED):
        if path.exists():
            _warn_once(f"{model}: the included model; the folder is ./{model}")
        return INCLUDED / model
    if path.exists():
        return path
    from keras_transformer.convert import hub, import_once

    # A mistyped path is in a folder that exists.
    is_path = path.parent.is_dir() and not str(model).startswith(hub.PREFIX)
    is_name = hub.is_name(model) and not is_path
    return import_once(model) if is_name else path


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
        file = Path(path, "config.json")
        if not file.exists():
            problem = "has no config.json"
            if not os.path.exists(path):
                problem = "does not exist"
            raise InputError(
                "A model must be a folder that `keras-transformer train`, "
                "`average`, `import` or `export` wrote, or en-de. Received: "
                f"{path}, which {problem}"
            )
        values = files.read_json(file)
        with errors.explain_damage(file, "the description of a run"):
            task = find_task(values["task"])
            search = task.search
            if values.get("search"):
                search = BeamSearch(**values["search"])
            source, target = values["languages"]
            return cls(
                path=file.parent,
                config=TransformerConfig(**values["model"]),
                task=task,
                search=search,
                languages=(source, target),
                statistics=dict(values["statistics"]),
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
        model: "Transformer | None" = None,
        step: int = 0,
    ) -> "Run":
        """Writes a new run, with the weights of a model if there is one.

        Args:
            path: The folder; `files.atomic_folder` completes it.
            config: The architecture.
            tokenizer: The tokenizer.
            task: Default: translation.
            search: Default: the task's.
            languages: Codes of source and target.
            statistics: Numbers and origin of the training data.
            request: The arguments of its training, if any.
            model: A model with this architecture. InputError if it is of a
                subclass, or quantized.
            step: The training step of the model.
        """
        Path(path, "checkpoints").mkdir(parents=True)
        tokenizer.save_files(path)
        values = {
            "task": (task or TranslationTask()).name,
            "model": config.to_dict(),
            "search": None if search is None else dataclasses.asdict(search),
            "languages": languages,
            "statistics": dict(statistics or {}),
            "tokenizer": tokenizer.digest,
        }
        files.write_json(Path(path, "config.json"), values)
        run = cls.open(path)
        if request is not None:
            run.save_request(request)
        if model is not None:
            from keras_transformer.model import Transformer
            from keras_transformer.quantized import policy_to_save

            is_quantized = policy_to_save(model) is not model.dtype_policy
            if type(model) is not Transformer or is_quantized:
                raise InputError(
                    "A run needs a Transformer, without quantization. Received:"
                    f" {type(model)}. Use `model.save` of Keras."
                )
            run.save_checkpoint(model, step, max_to_keep=1)
        return run

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
                name = row["split"]
                if row.get("data") not in (None, self.statistics.get("corpus")):
                    name += f" of {row['data']}"
                results[name] = row
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

    @property
    def request(self) -> dict[str, Any]:
        """The arguments of its training; {} for an imported model."""
        file = self.path / "train.yaml"
        if not file.exists():
            return {}
        flags = files.read_yaml(file.read_bytes(), file)
        advice = "Restore it: it repeats the flags of the training."
        with errors.explain_damage(file, "a YAML file of flags", advice):
            return {name.replace("-", "_"): x for name, x in flags.items()}

    def save_request(self, request: Mapping[str, Any]) -> None:
        """Writes `train.yaml`, for `train --config`."""
        import yaml

        # Numbers of NumPy become those of Python.
        values = json.loads(json.dumps(request, default=lambda x: x.item()))
        flags = {
            name.replace("_", "-"): value
            for name, value in values.items()
            if value is not None
        }
        with files.atomic_write(self.path / "train.yaml") as partial:
            text = yaml.safe_dump(flags, sort_keys=False, allow_unicode=True)
            partial.write_text(text, "utf-8")

    def results(self) -> list[dict[str, Any]]:
        """Returns the scores that `evaluate` measured, the newest last."""
        file = self.path / "results.json"
        return files.read_json(file) if file.exists() else []

    def checkpoints(self) -> list[Path]:
        """Returns the numbered checkpoints, oldest first."""
        return sorted(self.path.glob("checkpoints/step-[0-9]*.weights.h5"))

    @property
    def best_path(self) -> Path:
        """The checkpoint with the best validation score."""
        return self.path / "checkpoints" / "best.weights.h5"

    def find_checkpoint(self, name: str | int | None = None) -> Path:
        """Returns the checkpoint of a step, `"best"` or by default `"last"`."""
        checkpoints = self.checkpoints()
        if not checkpoints:
            raise InputError(
                f"{self.path} contains no checkpoint. Wait for the first epoch "
                "to end, or resume the training."
            )
        by_name = {str(step_of(path)): path for path in checkpoints}
        if self.best_path.exists():
            by_name["best"] = self.best_path
        by_name["last"] = checkpoints[-1]
        key = "last" if name is None else str(name)
        if key not in by_name:
            raise InputError(
                f"must be one of {', '.join(by_name)}, which {self.path} "
                f"contains. Received: {name}",
                argument="checkpoint",
            )
        return by_name[key]

    def save_checkpoint(
        self, model: "keras.Model", step: int, max_to_keep: int
    ) -> Path:
        """Writes the weights, and deletes all but the newest checkpoints."""
        path = self.path / "checkpoints" / f"step-{step:08d}.weights.h5"
        weight_files.save_weights(model, path, step)
        checkpoints = self.checkpoints()
        # Later steps are from before the training was resumed.
        kept = [x for x in checkpoints if step_of(x) <= step][-max_to_keep:]
        for checkpoint in set(checkpoints).difference(kept):
            checkpoint.unlink()
        return path

    def save_best(self, model: "keras.Model", step: int, score: float) -> None:
        """Writes the weights unless an earlier validation score is better."""
        path = self.best_path
        if path.exists() and score < weight_files.read_attribute(path, "score"):
            return
        weight_files.save_weights(model, path, step, score=score)

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
        weight_files.load_weights(model, checkpoint)
        return model
