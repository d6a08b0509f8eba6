"""Exports: reads SavedModels and folders for LiteRT, without TensorFlow."""

import dataclasses
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from keras_transformer.decoding.settings import BeamSearch, Search
from keras_transformer.support.errors import InputError, explain_damage
from keras_transformer.support.fields import check_values, integer_from
from keras_transformer.support.files import read_json
from keras_transformer.tasks import Task, TranslationTask
from keras_transformer.text import Tokenizer

METADATA_FILE = "keras_transformer.json"
MODEL_FILE = "model.tflite"  # of an export for LiteRT
_SAVED_MODEL = "saved_model.pb"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Export:
    """A folder that `keras-transformer export` wrote."""

    task: ClassVar[Task] = TranslationTask()  # parsers cannot be exported
    path: Path  # the newest version of a SavedModel
    kind: str  # saved-model or litert
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
        kind = "litert"
        file = path / METADATA_FILE
        if not file.is_file():
            kind = "saved-model"
            if not (path / _SAVED_MODEL).is_file():
                folders = [x.parent for x in path.glob(f"*/{_SAVED_MODEL}")]
                versions = [x for x in folders if x.name.isdecimal()]
                if not versions:
                    return None
                path = max(versions, key=lambda x: int(x.name))
            file = path / "assets.extra" / METADATA_FILE
        metadata = read_json(file) if file.is_file() else {}
        if kind == "litert" and "largest_beam_size" not in metadata:
            raise InputError(
                "An export to open must be a SavedModel or a folder for "
                f"LiteRT. Received: {path}, for a different program"
            )
        search = None
        with explain_damage(file, "the description of an export"):
            if "temperature" not in metadata["search"]:  # sampling
                search = BeamSearch(**metadata["search"])
        return cls(path=path, kind=kind, metadata=metadata, search=search)

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """Codes of source and target, None where they are unknown."""
        run = first_run(self.metadata)
        return run.get("source"), run.get("target")

    @property
    def request(self) -> Mapping[str, Any]:
        """The training arguments of the (first) run."""
        return first_run(self.metadata).get("request", {})

    def choose_search(self, search: Search | None) -> BeamSearch:
        """Returns the search to use; raises if LiteRT does not support it."""
        search = search or self.search
        if not isinstance(search, BeamSearch):
            raise InputError(
                "must be BeamSearch for an export for LiteRT. Received: "
                f"{search}. Open the run to sample.",
                argument="search",
            )
        largest = self.metadata["largest_beam_size"]
        check_values(integer_from(1, largest), beam_size=search.beam_size)
        if search.no_repeat_ngram and not self.search.no_repeat_ngram:
            raise InputError(
                "needs an export with a search that has it. Received: "
                f"{search.no_repeat_ngram} for {self.path}. Open the run, or "
                "export it again.",
                argument="no_repeat_ngram",
            )
        return search

    def open_files(self) -> tuple[Path, Tokenizer]:
        """Returns the model for LiteRT and its vocabulary, both checked."""
        # LiteRT opens damaged files, and crashes later or computes nonsense.
        file = self.path / MODEL_FILE
        tokenizer = Tokenizer.load(self.path)
        with open(file, "rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        found = {"model_sha256": digest, "tokenizer_sha256": tokenizer.digest}
        if found != {name: self.metadata[name] for name in found}:
            raise InputError(
                f"{self.path} must contain the files that were exported. "
                f"Received: a different {MODEL_FILE} or tokenizer. Copy the "
                "folder again."
            )
        return file, tokenizer


def first_run(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the metadata of the (first) run of a model, or {}."""
    return next(iter(metadata.get("runs", ())), {})
