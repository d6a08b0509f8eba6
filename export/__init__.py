"""The export program: a trained model for other runtimes.

`save` writes a SavedModel that takes and returns text, `save_litert` a folder
for LiteRT, `save_ctranslate2` one for CTranslate2, `save_huggingface` one for
Hugging Face's transformers, `save_argos` a package for Argos Translate and
LibreTranslate.
"""

from typing import TYPE_CHECKING

from keras_transformer.support.lazy import lazy_names

if TYPE_CHECKING:
    from keras_transformer.export import client as client
    from keras_transformer.export.litert.to_litert import (
        save_litert as save_litert,
    )
    from keras_transformer.export.saved_model.to_saved_model import save as save
    from keras_transformer.export.to_argos import save_argos as save_argos
    from keras_transformer.export.to_ctranslate2 import (
        save_ctranslate2 as save_ctranslate2,
    )
    from keras_transformer.export.to_hugging_face import (
        save_huggingface as save_huggingface,
    )

_NAMES = {
    "litert.to_litert": "save_litert",
    "saved_model.to_saved_model": "save",
    "to_argos": "save_argos",
    "to_ctranslate2": "save_ctranslate2",
    "to_hugging_face": "save_huggingface",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _NAMES, "client")
