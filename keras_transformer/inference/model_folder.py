"""Finds the folder of a model by its path or its name."""

import os
from pathlib import Path

# The models that come with the package, in folders of their names.
_INCLUDED = Path(__file__).parents[1] / "models"


def find_folder(model: str | os.PathLike) -> Path:
    """Returns the folder of a model, which may be given by its name.

    A name belongs to an included model or, as for `kt.convert.read`, to one on
    the Hugging Face Hub. A path that exists comes first.
    """
    path = Path(model)
    if path.exists():
        return path
    if str(path) in os.listdir(_INCLUDED):
        return _INCLUDED / path
    from keras_transformer.convert import hub

    # A mistyped path is in a folder that exists.
    is_path = path.parent.is_dir() and not str(model).startswith(hub.PREFIX)
    is_name = hub.is_name(model) and not is_path
    return hub.import_once(model) if is_name else path
