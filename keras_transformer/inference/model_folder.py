"""Descriptions of folders with models, read without TensorFlow."""

import abc
import dataclasses
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_transformer.decoding.settings import BeamSearch, Search
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import Task, find_task

# The models that come with the package, in folders of their names.
_INCLUDED = Path(__file__).parents[1] / "models"


def find_folder(model: str | os.PathLike) -> Path:
    """Returns the folder of a model, which may be the name of an included one.

    A folder of the working directory that has the name comes first.
    """
    path = Path(model)
    is_name = not path.exists() and str(path) in os.listdir(_INCLUDED)
    return _INCLUDED / path if is_name else path


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """A folder with a model: a run or an export."""

    path: Path  # of a SavedModel, that of the newest version
    task: Task
    recipe: Mapping[str, Any]  # {} if it is not recorded
    search: BeamSearch | None = None  # if one is recorded

    @property
    def name(self) -> str:
        """Name of the model: that of its folder, which may be a version's."""
        folder = self.path.resolve()
        return folder.parent.name if folder.name.isdecimal() else folder.name

    @property
    def default_search(self) -> BeamSearch | None:
        """Settings of the search, None if they are unknown or of sampling."""
        return self.search

    @property
    def num_translations(self) -> int:
        """Translations returned per text by default."""
        return 1

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """Source and target language, as far as they are recorded."""
        return self.recipe.get("source"), self.recipe.get("target")

    def training_data(self) -> list[str]:
        """Returns the data of the training, as `open_corpus` takes them."""
        name = self.recipe.get("data")
        if not isinstance(name, str):
            raise InputError(
                f"{self.path} does not say what it was trained on. Name the "
                f"data. Received: data={name!r:.100}"
            )
        is_bundled = name == "embedded" or name.startswith("tfds:")
        if is_bundled or os.path.exists(name):
            return [name]
        for space in re.finditer(" ", name):  # between two files
            pair = [name[: space.start()], name[space.end() :]]
            if all(map(os.path.isfile, pair)):
                return pair
        raise InputError(
            f"The data that {self.path} was trained on are not there. Name "
            f"them. Received: data={name!r}"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportFolder(ModelFolder, abc.ABC):
    """A folder that `keras-transformer export` wrote."""

    metadata: Mapping[str, Any]  # of its `keras_transformer.json`

    @classmethod
    def of_metadata(cls, path: Path, metadata: Mapping) -> "ExportFolder":
        """Returns the description of a folder with some metadata."""
        run, search = first_run(metadata), None
        if "temperature" not in metadata["search"]:  # of sampling
            search = BeamSearch.from_dict(metadata["search"], str(path))
        return cls(
            path=path,
            metadata=metadata,
            task=find_task("translation"),
            recipe=run.get("recipe", {}),
            search=search,
        )

    @property
    def num_translations(self) -> int:
        return self.metadata["num_translations"]

    @abc.abstractmethod
    def check_settings(self, search: Search | None, count: int | None) -> None:
        """Raises InputError unless the model was exported for some settings.

        `count` translations are returned per text. None stands for its own.
        """


def first_run(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns what is recorded of the (first) run of a model, or {}."""
    return next(iter(metadata.get("runs", ())), {})
