"""Reads what a folder for LiteRT has beside its model, and checks it."""

import json
import os
from pathlib import Path
from typing import Any

from keras_transformer.support.errors import InputError
from keras_transformer.support.files import sha256_of
from keras_transformer.text import Vocabulary, open_vocabulary

MODEL_FILE = "model.tflite"
METADATA_FILE = "keras_transformer.json"
FORMAT = 1
_NEEDED = {
    *("tokenizer_sha256", "model_sha256", "search", "largest_beam_size"),
    *("max_length", "attention_window", "dtype"),
}


def is_litert(path: str | os.PathLike) -> bool:
    """Returns whether a folder has a model that was exported for LiteRT."""
    return (Path(path) / MODEL_FILE).is_file()


def open_folder(path: Path) -> tuple[dict[str, Any], Vocabulary]:
    """Returns the metadata and the vocabulary of a folder.

    Raises:
        InputError: If the folder lacks a file, a file is damaged or of
            another export, or another version wrote it.
    """
    metadata = _read_metadata(path)
    tokenizer = open_vocabulary(path)
    if tokenizer.digest != metadata["tokenizer_sha256"]:
        raise InputError(
            f"{', '.join(tokenizer.files())} in {path} must be the tokenizer "
            "that the model was exported with, of SHA-256 "
            f"{metadata['tokenizer_sha256']!s:.12}. Received: "
            f"{tokenizer.digest:.12}. Export the model again."
        )
    return metadata, tokenizer


def _read_metadata(path: Path) -> dict[str, Any]:
    """Reads the metadata of a folder, and checks that its model is complete.

    LiteRT opens damaged files: it crashes later, or translates nonsense.
    """
    file = path / METADATA_FILE
    try:
        content = file.read_bytes()
        with open(path / MODEL_FILE, "rb") as model:
            digest = sha256_of(model)
        metadata = json.loads(content)
    except OSError as error:
        raise InputError(
            "A model for LiteRT is a folder that `keras-transformer export "
            f"--format litert` wrote, with {MODEL_FILE} and {METADATA_FILE}. "
            f"Received: {error.filename} ({error.strerror})"
        ) from error
    except ValueError as error:
        raise InputError(
            f"{file} is not valid JSON. Received: {error}"
        ) from error
    found = metadata.get("format") if isinstance(metadata, dict) else None
    if found != FORMAT:
        raise InputError(
            f"{path} must be a LiteRT model of format {FORMAT}. Received: "
            f"format={found!r}. It was written by another version: use that "
            "version, or export the model again."
        )
    if not _NEEDED <= set(metadata):
        raise InputError(
            f"{file} must have the metadata of the export. Received: a file "
            f"without {', '.join(sorted(_NEEDED - set(metadata)))}. Export "
            "the model again."
        )
    if digest != metadata["model_sha256"]:
        raise InputError(
            f"{path / MODEL_FILE} must be the model that was exported, of "
            f"SHA-256 {metadata['model_sha256']!s:.12}. Received: "
            f"{digest:.12}. It is damaged, or of another export: copy the "
            "folder again, or export the model again."
        )
    return metadata
