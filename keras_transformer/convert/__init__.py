"""Models of other systems: one file per format, and one table of names."""

import importlib
import os
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import quiet_tensorflow_import

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Translator

__all__ = ["FORMATS", "ForeignModel", "load", "read"]

# Modules of this package. Each has `read`, and `MARKS`: names of files, one of
# which every folder of the format has.
FORMATS = {
    "huggingface": "from_hugging_face",
    "marian": "from_marian",
    "opennmt-tf": "from_opennmt_tf",
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
        format: A key of `FORMATS`. Default: recognised by the files.
        target_language: As in `read`, such as `fra`.
        dtype: Of weights and computation, as in `Run.load_model`.

    Raises:
        InputError: If the folder cannot be read or has no such model.
    """
    with quiet_tensorflow_import():
        from keras_transformer.inference.translator import Translator

    found = read(folder, format, target_language)
    model = found.load_model(dtype)
    return Translator(model, found.vocabulary, found.search)


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
    return _module(folder, format).read(folder, target_language)


def _module(folder: Path, format: str | None) -> ModuleType:
    if format is not None and format not in FORMATS:
        raise InputError(
            f"format must be one of {', '.join(FORMATS)}. Received: {format}"
        )
    modules = {
        name: importlib.import_module(f"{__name__}.{module}")
        for name, module in FORMATS.items()
        if format in (None, name)
    }
    for module in modules.values():
        if format or any(any(folder.glob(mark)) for mark in module.MARKS):
            return module
    marks = (
        f"{name}: {' or '.join(module.MARKS)}"
        for name, module in modules.items()
    )
    raise InputError(
        f"{folder} must have the files of a known format "
        f"({'; '.join(marks)}). Received: none of them"
    )
