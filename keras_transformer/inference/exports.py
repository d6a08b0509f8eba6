"""Exports: SavedModels and folders for LiteRT, read without TensorFlow."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_transformer.decoding.settings import BeamSearch, Search
from keras_transformer.inference.model_folder import (
    ModelFolder,
    find_folder,
    first_run,
)
from keras_transformer.litert import MODEL_FILE
from keras_transformer.support.errors import InputError, name_file
from keras_transformer.support.files import check_types, read_json, sha256_of
from keras_transformer.tasks import find_task
from keras_transformer.text import Tokenizer

METADATA_FILE = "keras_transformer.json"
_SAVED_MODEL = "saved_model.pb"
# The metadata that are read, and their types.
_TYPES = {"runs": list, "search": dict, "num_translations": int}
_LITERT_TYPES = {
    **dict.fromkeys(("tokenizer_sha256", "model_sha256", "dtype"), str),
    **dict.fromkeys(("largest_beam_size", "max_length"), int),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Export(ModelFolder):
    """A folder that `keras-transformer export` wrote, by its metadata."""

    kind: str  # saved-model or litert
    metadata: Mapping[str, Any]

    @classmethod
    def find(cls, path: str | os.PathLike) -> tuple[str, Path] | None:
        """Returns kind and folder of an export, or None.

        Of the versions of a SavedModel it is the one that TensorFlow Serving
        would load.
        """
        path = find_folder(path)
        if (path / METADATA_FILE).is_file():
            return "litert", path
        if (path / _SAVED_MODEL).is_file():
            return "saved-model", path
        versions = [
            file.parent
            for file in path.glob(f"*/{_SAVED_MODEL}")
            if file.parent.name.isdecimal()
        ]
        if not versions:
            return None
        return "saved-model", max(versions, key=lambda x: int(x.name))

    @classmethod
    def read(cls, path: str | os.PathLike) -> "Export":
        """Reads the metadata of an export.

        Raises:
            InputError: If it is not an export for TensorFlow or LiteRT, or is
                damaged.
        """
        kind, folder = cls.find(path) or ("", Path(path))
        place = "assets.extra" if kind == "saved-model" else ""
        file = folder / place / METADATA_FILE
        metadata = read_json(file) if file.is_file() else {}
        is_lite = kind == "litert"
        if not metadata or (is_lite and "largest_beam_size" not in metadata):
            raise InputError(
                "An export to open must be a SavedModel or a folder for "
                f"LiteRT with its {METADATA_FILE}, which `keras-transformer "
                f"export` writes. Received: {path}"
            )
        check_types(file, metadata, _TYPES | (_LITERT_TYPES if is_lite else {}))
        with name_file(file):
            search = None
            if "temperature" not in metadata["search"]:  # of sampling
                search = BeamSearch.from_dict(metadata["search"], str(folder))
            return cls(
                path=folder,
                kind=kind,
                metadata=metadata,
                task=find_task("translation"),
                recipe=first_run(metadata).get("recipe", {}),
                search=search,
            )

    @property
    def num_translations(self) -> int:
        return self.metadata["num_translations"]

    def choose_search(
        self, search: Search | None, count: int | None
    ) -> tuple[Search | None, int]:
        """Returns the search and the number of translations to use.

        Default: as exported.

        Raises:
            InputError: If the model was not exported for them.
        """
        problem, most = "", self.num_translations
        if self.kind == "saved-model":
            count = most if count is None else count
            if search is not None:
                problem = f"search={search}, for a SavedModel with its own"
            elif not 1 <= count <= most:
                problem = f"num_translations={count}, of {most} that it has"
        else:
            search, own = search or self.search, self.search
            largest = self.metadata["largest_beam_size"]
            if not isinstance(search, BeamSearch):
                problem = f"search={search}, which LiteRT does not have"
            elif search.beam_size > largest:
                problem = f"beam_size={search.beam_size}, above {largest}"
            elif search.no_repeat_ngram and not own.no_repeat_ngram:
                problem = f"no_repeat_ngram={search.no_repeat_ngram}"
            elif count is None:
                count = min(most, search.beam_size)
        if problem:
            raise InputError(
                f"{self.path} must be used with a search that it was exported "
                f"for. Received: {problem}. Use the run, or export it again."
            )
        return search, count

    def open_files(self) -> tuple[Path, Tokenizer]:
        """Returns the model for LiteRT and its vocabulary, both checked."""
        # LiteRT opens files with other bytes, and fails later or computes
        # nonsense.
        file = self.path / MODEL_FILE
        tokenizer = Tokenizer.load(self.path)
        try:
            with open(file, "rb") as content:
                digest = sha256_of(content)
        except OSError as error:
            raise InputError(
                f"{self.path} must contain {MODEL_FILE}. Received: "
                f"{error.strerror}. Export the model again."
            ) from error
        for name, received in (
            ("model_sha256", digest),
            ("tokenizer_sha256", tokenizer.digest),
        ):
            if received != self.metadata[name]:
                raise InputError(
                    f"{self.path} must contain the files that were exported. "
                    f"Received: {name}={received:.12} instead of "
                    f"{self.metadata[name]:.12}. Copy the folder again."
                )
        return file, tokenizer
