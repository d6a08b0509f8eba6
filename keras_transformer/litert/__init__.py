"""Translates without TensorFlow and Keras, with a model exported for LiteRT."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from keras_transformer.decoding.settings import BeamSearch as BeamSearch
from keras_transformer.support.lazy import lazy_names

if TYPE_CHECKING:
    from keras_transformer.litert.lite_folder import (
        default_search as default_search,
    )
    from keras_transformer.litert.lite_folder import (
        read_metadata as read_metadata,
    )
    from keras_transformer.litert.lite_translator import (
        LiteRTTranslator as LiteRTTranslator,
    )

_PATHS = {
    "LiteRTTranslator": "lite_translator:LiteRTTranslator",
    "default_search": "lite_folder:default_search",
    "read_metadata": "lite_folder:read_metadata",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _PATHS)

MODEL_FILE = "model.tflite"
METADATA_FILE = "keras_transformer.json"


def is_export(path: str | os.PathLike) -> bool:
    """Returns whether a folder was exported without TensorFlow."""
    return (Path(path) / METADATA_FILE).is_file()
