"""Models of other systems: one file per format, and one table of names."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from keras_transformer.convert import (
    from_hugging_face,
    from_marian,
    from_opennmt_tf,
)
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import quiet_tensorflow_import

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Translator

__all__ = ["FORMATS", "ForeignModel", "load", "read"]

# A module has `read`, and `FILES`: patterns of names of files, one of which
# every folder of the format has.
FORMATS = {
    "huggingface": from_hugging_face,
    "marian": from_marian,
    "opennmt-tf": from_opennmt_tf,
}


def load(
    folder: str | os.PathLike,
    format: str | None = None,
    target_language: str | None = None,
    dtype: str | None = None,
) -> "Translator":
    """Returns the translator of another system's model.

    Args:
        folder: The folder of the model.
        format: As in `read`.
        target_language: As in `read`.
        dtype: Of weights and computation, as in `Run.load_model`.

    Raises:
        InputError: If the folder cannot be read or has no such model.
    """
    with quiet_tensorflow_import():
        from keras_transformer.inference.translator import Translator

    foreign = read(folder, format, target_language)
    model = foreign.load_model(dtype)
    return Translator(model, foreign.vocabulary, foreign.search)


def read(
    folder: str | os.PathLike,
    format: str | None = None,
    target_language: str | None = None,
) -> ForeignModel:
    """Reads the folder of another system's model, but not its weights yet.

    Args:
        folder: The folder.
        format: A key of `FORMATS`. Default: recognised by the files.
        target_language: Of a model with several target languages, the one of
            sources without a language token: `fra` stands for `>>fra<<`.

    Raises:
        InputError: If the folder has no such model, or one that cannot be
            expressed as a `TransformerConfig` and a vocabulary; the message
            names file and field.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(
            f"A model must be a folder that exists. Received: {folder}"
        )
    format = format or _recognize(folder)
    if format not in FORMATS:
        raise InputError(
            f"format must be one of {', '.join(FORMATS)}. Received: {format}"
        )
    foreign = FORMATS[format].read(folder)
    if target_language is not None:
        foreign = foreign.translating_to(target_language)
    return foreign


def _recognize(folder: Path) -> str:
    """Returns the format of a model, by its files."""
    for format, module in FORMATS.items():
        if any(any(folder.glob(pattern)) for pattern in module.FILES):
            return format
    files = "; ".join(
        f"{format}: {' or '.join(module.FILES)}"
        for format, module in FORMATS.items()
    )
    raise InputError(
        f"{folder} must have the files of a known format ({files}). "
        "Received: none of them"
    )
