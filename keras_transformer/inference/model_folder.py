"""Descriptions of folders with models, read without TensorFlow."""

import dataclasses
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import Task

# The models that come with the package, in folders of their names.
_INCLUDED = Path(__file__).parents[1] / "models"


def find_folder(model: str | os.PathLike) -> Path:
    """Returns the folder of a model, which may be given by its name.

    A name is that of an included model or, as for `kt.convert.read`, that of
    one on the Hugging Face Hub. A path that exists comes first.
    """
    path = Path(model)
    if path.exists():
        return path
    if str(path) in os.listdir(_INCLUDED):
        return _INCLUDED / path
    from keras_transformer.convert import hub

    # A mistyped path is in a folder that exists.
    is_path = path.parent.is_dir() and not str(model).startswith(hub.PREFIX)
    is_name = hub.is_name(model) and not is_path
    return hub.import_once(model) if is_name else path


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


def first_run(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns what is recorded of the (first) run of a model, or {}."""
    return next(iter(metadata.get("runs", ())), {})
