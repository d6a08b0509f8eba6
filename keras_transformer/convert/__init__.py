"""Models of other systems: one file per format, and one table of names."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from keras_transformer.convert import (
    from_hugging_face,
    from_marian,
    from_opennmt_tf,
    hub,
)
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import check_values, one_of
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
    model: str | os.PathLike,
    format: str | None = None,
    target_language: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
) -> "Translator":
    """Returns the translator of another system's model.

    Args:
        model: As in `read`.
        format: As in `read`.
        target_language: As in `read`.
        dtype: Of weights and computation, as in `Run.load_model`.
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
    """Reads another system's model, but not its weights yet.

    Args:
        model: A folder, or the name of a model on the Hugging Face Hub, which
            is downloaded: `hf:OWNER/NAME`, or a text `OWNER/NAME` if there is
            nothing on disk that is named so.
        format: A key of `FORMATS`. Default: recognised by the files.
        target_language: Of a model with several target languages, the one of
            sources without a language token: `fra` stands for `>>fra<<`.
        revision: Branch, tag or commit of a model by name. Default: `main`.

    Raises:
        InputError: If there is no such model, or one that cannot be expressed
            as a `TransformerConfig` and a vocabulary; the message names file
            and field.
    """
    is_name = hub.is_name(model)
    if revision is not None and not is_name:
        raise InputError(f"A revision needs a model by name. Received: {model}")
    folder = hub.download(model, revision) if is_name else Path(model)
    if not folder.is_dir():
        raise InputError(
            "A model must be a folder that exists, or the name of one on the "
            f"Hugging Face Hub, as OWNER/NAME. Received: {model}"
        )
    format = format or _recognize(folder)
    check_values(one_of(*FORMATS), format=format)
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
