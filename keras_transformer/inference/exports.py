"""Exports: reads SavedModels and folders for LiteRT, without TensorFlow."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.support.errors import InputError, explain_damage
from keras_transformer.support.fields import integer_from
from keras_transformer.support.files import read_json
from keras_transformer.tasks import Task, TranslationTask

METADATA_FILE = "keras_transformer.json"
MODEL_FILE = "model.tflite"  # of an export for LiteRT
_SAVED_MODEL = "saved_model.pb"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Export:
    """A folder that `keras-transformer export` wrote."""

    task: ClassVar[Task] = TranslationTask()  # parsers cannot be exported
    path: Path  # the newest version of a SavedModel
    format: str  # saved-model or litert
    metadata: Mapping[str, Any]
    search: BeamSearch | None  # None: sampling

    @classmethod
    def find(cls, path: str | os.PathLike) -> "Export | None":
        """Reads the metadata of an export; returns None for other folders.

        Like TensorFlow Serving, it takes the newest version of a SavedModel.

        Raises:
            InputError: If the export is damaged, or a different program's.
        """
        path = Path(path)
        format = "litert"
        file = path / METADATA_FILE
        if not file.is_file():
            format = "saved-model"
            if not (path / _SAVED_MODEL).is_file():
                folders = [x.parent for x in path.glob(f"*/{_SAVED_MODEL}")]
                versions = [x for x in folders if x.name.isdecimal()]
                if not versions:
                    return None
                path = max(versions, key=lambda x: int(x.name))
            file = path / "assets.extra" / METADATA_FILE
        metadata = read_json(file) if file.is_file() else {}
        needed = "largest_beam_size" if format == "litert" else "search"
        if needed not in metadata:
            raise InputError(
                "A model to open must be a SavedModel or a folder for LiteRT "
                "that `keras-transformer export` wrote. Received: "
                f"{path}, a model of a different program"
            )
        search = None
        with explain_damage(file, "the description of an export"):
            if "temperature" not in metadata["search"]:  # sampling
                search = BeamSearch(**metadata["search"])
        return cls(path=path, format=format, metadata=metadata, search=search)

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """Codes of source and target, None where they are unknown."""
        run = first_run(self.metadata)
        return run.get("source"), run.get("target")

    @property
    def request(self) -> Mapping[str, Any]:
        """The training arguments of the (first) run."""
        return first_run(self.metadata).get("request", {})


def first_run(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the metadata of the (first) run of a model, or {}."""
    return next(iter(metadata.get("runs", ())), {})


def use_run(model: str | os.PathLike) -> str:
    """Returns what to do if an export or a served model is not enough."""
    run = Path(model, "run")  # en-de contains its run
    name = f"its run {run}" if run.is_dir() else "its run"
    return f"Open {name}, or export the model again."


def check_exported(
    name: str, value: int, most: int, model: str | os.PathLike
) -> None:
    """Raises InputError for a number that an export was not made for."""
    rule = integer_from(1, most)
    if not rule.accepts(value):
        raise InputError(
            f"must be {rule.expected}, the limit {model} was exported with. "
            f"Received: {value!r}. {use_run(model)}",
            argument=name,
        )
