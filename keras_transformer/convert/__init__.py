"""Imports models of other systems: Hugging Face, Marian and OpenNMT-tf."""

import logging
import os
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from keras_transformer import __version__
from keras_transformer.convert import (
    from_hugging_face,
    from_marian,
    from_opennmt_tf,
    hub,
)
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import check_values, one_of
from keras_transformer.support.files import locked
from keras_transformer.support.startup import (
    explain_missing_packages,
    quiet_tensorflow_import,
)

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Translator

__all__ = ["FORMATS", "ForeignModel", "load", "read"]

logger = logging.getLogger(__name__)

# Each module has a function `read` and glob patterns, `FILES`. A folder of the
# format contains a file that matches a pattern.
FORMATS = {
    "huggingface": from_hugging_face,
    "marian": from_marian,
    "opennmt-tf": from_opennmt_tf,
}


def load(
    model: str | os.PathLike,
    format: str | None = None,
    target_language: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
) -> "Translator":
    """Returns a translator with another system's model.

    Args:
        model: As in `read`.
        format: As in `read`.
        target_language: As in `read`.
        dtype: Dtype policy of the model, as in `Run.load_model`.
        revision: As in `read`.

    Raises:
        InputError: If the model cannot be read.
    """
    with quiet_tensorflow_import():
        from keras_transformer.inference.translator import Translator

    foreign = read(model, format, target_language, revision)
    loaded = foreign.load_model(dtype)
    return Translator(loaded, foreign.vocabulary, foreign.search)


def read(
    model: str | os.PathLike,
    format: str | None = None,
    target_language: str | None = None,
    revision: str | None = None,
) -> ForeignModel:
    """Reads another system's model; its weights are read later.

    Args:
        model: A folder, or the name of a model on the Hugging Face Hub, which
            is downloaded: `hf:OWNER/NAME`, or the string `OWNER/NAME` if there
            is no such path on disk.
        format: A key of `FORMATS`. Default: detected from the files.
        target_language: Language of sources without a language token, for
            models with several target languages: `fra` stands for `>>fra<<`.
        revision: Branch, tag or commit on the Hub. Default: `main`.

    Raises:
        InputError: If the model does not exist, or cannot be expressed as a
            `TransformerConfig` and a vocabulary; the message names the file
            and the field.
    """
    is_name = hub.is_name(model)
    if revision is not None and not is_name:
        raise InputError(
            f"requires a model on the Hub. Received: {model}",
            argument="revision",
        )
    folder = hub.download(model, revision) if is_name else Path(model)
    if not folder.is_dir():
        raise InputError(
            "The model must be a folder that exists, or OWNER/NAME on the "
            f"Hugging Face Hub. Received: {model}"
        )
    if format is not None:
        check_values(one_of(*FORMATS), format=format)
    foreign = _recognize(folder, format).read(folder)
    if target_language is not None:
        foreign = foreign.translating_to(target_language)
    return foreign


def _recognize(folder: Path, format: str | None) -> ModuleType:
    """Returns the module that reads a folder, of a format or of any."""
    formats = FORMATS if format is None else {format: FORMATS[format]}
    for module in formats.values():
        if any(any(folder.glob(pattern)) for pattern in module.FILES):
            return module
    files = (f"{x} ({' or '.join(y.FILES)})" for x, y in formats.items())
    raise InputError(
        f"{folder} must contain the files of a model: {', '.join(files)}. "
        "Received: none of them"
    )


def import_once(name: str) -> Path:
    """Returns the cached run of a model of the Hub, imported if needed."""
    with explain_missing_packages():
        from platformdirs import user_cache_path
    cache = user_cache_path("keras-transformer", False, __version__)
    folder = cache / name.removeprefix(hub.PREFIX)
    if not folder.exists():
        foreign = read(name)
        logger.info(f"importing {name} into {folder}")
        with locked(cache, wait=True):
            # A different process may have imported it meanwhile.
            if not folder.exists():
                foreign.save_run(folder)
    return folder
