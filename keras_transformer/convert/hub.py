"""Downloads models from the Hugging Face Hub."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_transformer.convert import from_hugging_face
from keras_transformer.support.errors import explain_damage, name_file
from keras_transformer.support.logs import progress_bar
from keras_transformer.support.startup import explain_missing_packages

PREFIX = "hf:"
_NAME = r"\w[\w.-]*/\w[\w.-]*"
_SECONDS = 30  # in which the Hub must answer


def is_name(model: str | os.PathLike) -> bool:
    """Returns whether a model is the name of one on the Hub."""
    if not isinstance(model, str):
        return False
    has_form = re.fullmatch(_NAME, model) and not os.path.exists(model)
    return model.startswith(PREFIX) or bool(has_form)


def download(model: str, revision: str | None = None) -> Path:
    """Downloads the files that an import needs, and returns their folder."""
    folder = _fetch(model, revision, from_hugging_face.SETTINGS)
    with name_file(model):
        from_hugging_face.check_is_marian(folder)
    for file in from_hugging_face.WEIGHTS:
        _fetch(model, folder.name, [file])  # from the same commit
        if (folder / file).exists():
            break
    return folder


def _fetch(model: str, revision: str | None, files: Sequence[str]) -> Path:
    """Downloads those of the files that exist, and returns their folder."""
    with explain_missing_packages():
        from huggingface_hub import snapshot_download
        from huggingface_hub.utils import get_session, logging

    # huggingface_hub raises errors of many types.
    with explain_damage(
        model,
        "a folder, or the name of a model on the Hugging Face Hub that you may "
        "read",
        f"The Hub must answer within {_SECONDS} seconds.",
    ):
        hooks = get_session().event_hooks["request"]
        hooks.append(_limit_time)
        verbosity = logging.get_verbosity()
        logging.set_verbosity_error()  # hides warnings about missing files
        try:
            folder = snapshot_download(
                model.removeprefix(PREFIX),
                revision=revision,
                allow_patterns=files,
                tqdm_class=progress_bar,
            )
        finally:
            logging.set_verbosity(verbosity)
            hooks.remove(_limit_time)
    return Path(folder)


def _limit_time(request: Any) -> None:
    """Limits how long a request waits, which huggingface_hub does not."""
    limits = request.extensions["timeout"]
    limits.update({x: limits[x] or _SECONDS for x in limits})
