"""Reads and checks what a folder for LiteRT has."""

import os
from pathlib import Path
from typing import Any

from keras_transformer.decoding.settings import BeamSearch
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


def open_folder(path: Path) -> tuple[dict[str, Any], Vocabulary]:
    """Returns the metadata and the vocabulary of a folder.

    Raises:
        InputError: If the folder lacks a file, a file is damaged or of
            another export, or another version wrote it.
    """
    metadata = read_metadata(path)
    _check_model(path / MODEL_FILE, metadata["model_sha256"])
    tokenizer = open_vocabulary(path)
    if tokenizer.digest != metadata["tokenizer_sha256"]:
        raise InputError(
            f"{', '.join(tokenizer.files())} in {path} must be the tokenizer "
            "that the model was exported with, of SHA-256 "
            f"{metadata['tokenizer_sha256']!s:.12}. Received: "
            f"{tokenizer.digest:.12}. Export the model again."
        )
    return metadata, tokenizer


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
