"""Finds the folder of a model by its path or its name."""

import functools
import logging
import os
from pathlib import Path

_warn_once = functools.cache(logging.getLogger(__name__).warning)

# The models that come with the package, in folders of their names.
INCLUDED = Path(__file__).resolve().parents[1] / "models"


def find_folder(model: str | os.PathLike) -> Path:
    """Returns the folder of a model, which may be given by its name.

    A name is the string of an included model or, as for `kt.convert.read`, of
    one on the Hugging Face Hub. A folder with the name of an included model is
    `"./en-de"` or a `Path`.
    """
    path = Path(model)
    if isinstance(model, str) and model in os.listdir(INCLUDED):
        if path.exists():
            _warn_once(f"{model}: the included model; the folder is ./{model}")
        return INCLUDED / model
    if path.exists():
        return path
    from keras_transformer.convert import hub, import_once

    # A mistyped path is in a folder that exists.
    is_path = path.parent.is_dir() and not str(model).startswith(hub.PREFIX)
    is_name = hub.is_name(model) and not is_path
    return import_once(model) if is_name else path
