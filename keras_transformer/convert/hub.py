"""Models on the Hugging Face Hub, by name."""

import functools
import os
import re
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
    if model.startswith(_PREFIX):
        return True
    has_form = re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", model, re.ASCII)
    return bool(has_form) and not os.path.lexists(model)


def download(model: str, revision: str | None = None) -> Path:
    """Returns where the files of a Marian model are, which it downloads.

    They are in the cache of huggingface_hub, and only those that are read.
    """
    is_explicit = model.startswith(_PREFIX)
    with name_file(
        model if is_explicit else f"{model}, which is no folder here,"
    ):
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
            "The Hugging Face Hub must have a model of this name that can be "
            f"downloaded. Received: {_explain(error)}"
        ) from error
    finally:
        logging.set_verbosity(verbosity)
    return Path(folder)


def _explain(error: Exception) -> str:
    """Returns why a download failed, and what to do."""
    from huggingface_hub import errors

    login = "log in with `hf auth login`, or set HF_TOKEN"
    if isinstance(error, errors.GatedRepoError):
        return f"a gated model. Ask for access on its page, and {login}"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"no such model, or a private one. If it is private, {login}"
    if isinstance(error, errors.RevisionNotFoundError):
        return "a model without this revision. Its page lists those it has"
    problem = str(error.__cause__ or error).strip().partition("\n")[0]
    if isinstance(error, errors.LocalEntryNotFoundError):
        return f"no answer, and not all of its files in the cache: {problem}"
    return f"{type(error).__name__}: {problem}"
