"""Models on the Hugging Face Hub, by name."""

import functools
import os
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.convert import from_hugging_face
from keras_transformer.support.errors import InputError, name_file
from keras_transformer.support.progress import progress_bar
from keras_transformer.support.startup import explain_missing_packages

_PREFIX = "hf:"


def is_name(model: str | os.PathLike) -> bool:
    """Returns whether a model is on the Hub and not in a folder."""
    if not isinstance(model, str):
        return False
    has_form = model.count("/") == 1 and not os.path.exists(model)
    return model.startswith(_PREFIX) or has_form


def download(model: str, revision: str | None = None) -> Path:
    """Returns where the files of a Marian model are, which it downloads.

    They are in the cache of huggingface_hub, and only those that are read.
    """
    with name_file(model):
        folder = _fetch(model, revision, from_hugging_face.SETTINGS)
        from_hugging_face.read_settings(folder)
        for file in from_hugging_face.WEIGHTS:
            _fetch(model, folder.name, [file], True)  # of the same commit
            if (folder / file).exists():
                break
    return folder


def _fetch(
    model: str,
    revision: str | None,
    files: Sequence[str],
    shows_progress: bool = False,
) -> Path:
    """Returns the folder of a model, with those of the files that it has."""
    with explain_missing_packages(InputError):
        from huggingface_hub import snapshot_download
        from huggingface_hub.utils import logging
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # It warns of files that a model lacks.
    try:
        folder = snapshot_download(
            model.removeprefix(_PREFIX),
            revision=revision,
            allow_patterns=files,
            tqdm_class=functools.partial(progress_bar, is_shown=shows_progress),
        )
    # It raises errors of many types, and so do the packages that it uses.
    except Exception as error:
        raise InputError(
            "It must be a folder, or the name of a model that the Hugging Face "
            f"Hub has and you may read. Received: {error}"
        ) from error
    finally:
        logging.set_verbosity(verbosity)
    return Path(folder)
