"""Imports models of other systems: Hugging Face, Marian and OpenNMT-tf."""

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from keras_transformer import __version__
from keras_transformer.convert import hub
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.convert.from_hugging_face import read_hugging_face
from keras_transformer.convert.from_marian import read_marian
from keras_transformer.convert.from_opennmt_tf import read_opennmt_tf
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import check_values, one_of
from keras_transformer.support.files import locked
from keras_transformer.support.startup import explain_missing_packages

__all__ = ["FORMATS", "ForeignModel", "read"]

logger = logging.getLogger(__name__)


class Format(NamedTuple):
    """A format of models."""

    read: Callable[[Path], ForeignModel]
    files: Sequence[str]  # patterns; a folder contains a file that matches one


FORMATS = {
    "huggingface": Format(read_hugging_face, ["config.json"]),
    "marian": Format(read_marian, ["*.npz", "*decoder.yml"]),
    "opennmt-tf": Format(read_opennmt_tf, ["ckpt*.index", "avg/ckpt*.index"]),
}


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
    if format is not None:
        check_values(one_of(*FORMATS), format=format)
    foreign = _find_format(folder, format).read(folder)
    if target_language is not None:
        foreign = foreign.translating_to(target_language)
    return foreign


def _find_format(folder: Path, format: str | None) -> Format:
    """Returns the format of a folder; with `format`, only that is accepted."""
    formats = FORMATS if format is None else {format: FORMATS[format]}
    for candidate in formats.values():
        if any(any(folder.glob(pattern)) for pattern in candidate.files):
            return candidate
    files = [f"{x} ({' or '.join(y.files)})" for x, y in formats.items()]
    problem = "without these files" if folder.is_dir() else "not a folder"
    raise InputError(
        "The model must be OWNER/NAME on the Hugging Face Hub, or a folder of "
        f"a format: {', '.join(files)}. Received: {folder}, {problem}"
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
