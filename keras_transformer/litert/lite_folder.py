"""Reads and checks what a folder for LiteRT has."""

import dataclasses
import os
from pathlib import Path
from typing import Any

from keras_transformer.decoding.settings import BeamSearch, Search
from keras_transformer.inference.model_folder import (
    ExportFolder,
    recorded_recipe,
    recorded_task,
)
from keras_transformer.litert import METADATA_FILE, MODEL_FILE
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import (
    check_kinds,
    read_json,
    sha256_of,
)
from keras_transformer.text import Vocabulary, open_vocabulary

FORMAT = 1
# The metadata that are read, and what they must be.
_KINDS = {
    **dict.fromkeys(("tokenizer_sha256", "model_sha256", "dtype"), str),
    **dict.fromkeys(("largest_beam_size", "num_translations"), int),
    **dict.fromkeys(("max_length", "pad_id", "bos_id", "eos_id"), int),
    "attention_window": (int, type(None)),
    "banned_ids": list,
    "search": dict,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class LiteRTFolder(ExportFolder):
    """An export for LiteRT, by its metadata."""

    identifying_files = (METADATA_FILE,)  # it has the digest of the model

    @classmethod
    def read(cls, path: str | os.PathLike) -> "LiteRTFolder":
        """Reads the metadata of a folder, and checks them.

        Raises:
            InputError: If it was not exported for LiteRT, or by another
                version.
        """
        metadata = read_metadata(path)
        return cls(
            path=Path(path),
            metadata=metadata,
            task=recorded_task(metadata),
            recipe=recorded_recipe(metadata),
            search=default_search(metadata),
        )

    def check_settings(
        self, search: Search | None, num_translations: int | None
    ) -> None:
        search = search or self.search
        largest = self.metadata["largest_beam_size"]
        if not isinstance(search, BeamSearch):
            raise InputError(
                "A model for LiteRT has beam search only. Received: "
                f"search={search}. Sampling needs the run or a SavedModel."
            )
        if search.beam_size > largest:
            raise InputError(
                f"{self.path} was exported for a beam size of at most "
                f"{largest}. Received: beam_size={search.beam_size}. Export "
                f"the run again with --beam-size {search.beam_size}."
            )
        if num_translations is not None:
            search.with_num_translations(num_translations)


def open_tokenizer(folder: LiteRTFolder) -> Vocabulary:
    """Returns the vocabulary of a folder, after a check of all its files.

    Raises:
        InputError: If a file is not there, damaged or of another export.
    """
    path, metadata = folder.path, folder.metadata
    _check_model(path / MODEL_FILE, metadata["model_sha256"])
    tokenizer = open_vocabulary(path)
    if tokenizer.digest != metadata["tokenizer_sha256"]:
        raise InputError(
            f"{', '.join(tokenizer.files())} in {path} must be the tokenizer "
            "that the model was exported with, of SHA-256 "
            f"{metadata['tokenizer_sha256']!s:.12}. Received: "
            f"{tokenizer.digest:.12}. Export the model again."
        )
    return tokenizer


def read_metadata(path: str | os.PathLike) -> dict[str, Any]:
    """Returns what `keras_transformer.json` says of an exported model.

    Raises:
        InputError: If the folder was not exported for LiteRT, or by another
            version.
    """
    file = Path(path) / METADATA_FILE
    try:
        metadata = read_json(file)
    except OSError as error:
        raise _incomplete(error) from error
    found = metadata.get("format") if isinstance(metadata, dict) else None
    if found is None:
        kind = "another export"
        files = {
            "model.bin": "CTranslate2",
            "model.safetensors": "Hugging Face",
        }
        for name, system in files.items():
            if (Path(path) / name).exists():
                kind = f"an export for {system}: its README.md says how to use "
                kind += "it"
        raise InputError(
            f"{path} must be an export for LiteRT, which `keras-transformer "
            f"export --format litert` writes. Received: {kind}"
        )
    if found != FORMAT:
        raise InputError(
            f"{path} must be a LiteRT model of format {FORMAT}. Received: "
            f"format={found!r}. It was written by another version: use that "
            "version, or export the model again."
        )
    check_kinds(file, metadata, _KINDS)
    return metadata


def default_search(metadata: dict[str, Any]) -> BeamSearch:
    """Returns the search of an export.

    Raises:
        InputError: If the metadata have no valid search.
    """
    return BeamSearch.from_dict(metadata["search"], "an export")


def _check_model(file: Path, expected: str) -> None:
    """Raises InputError if a model is not the one that was exported.

    LiteRT opens files with other bytes, and fails later or computes nonsense.
    """
    try:
        with open(file, "rb") as content:
            found = sha256_of(content)
    except OSError as error:
        raise _incomplete(error) from error
    if found != expected:
        raise InputError(
            f"{file} must be the model that was exported, of SHA-256 "
            f"{expected!s:.12}. Received: {found:.12}. It is damaged, or of "
            "another export: copy the folder again, or export the model again."
        )


def _incomplete(error: OSError) -> InputError:
    return InputError(
        "A model for LiteRT is a folder that `keras-transformer export "
        f"--format litert` wrote, with {MODEL_FILE} and {METADATA_FILE}. "
        f"Received: {error.filename} ({error.strerror})"
    )
