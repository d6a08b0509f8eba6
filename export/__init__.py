"""The export program: a trained model for other runtimes.

`save` writes a SavedModel that takes and returns text, `save_litert` a folder
for LiteRT, `save_ctranslate2` one for CTranslate2.
"""

from keras_transformer.export.ctranslate2 import save_ctranslate2
from keras_transformer.export.litert import save_litert
from keras_transformer.export.saved_model import save, translate_in_subprocess
from keras_transformer.export.serving_kit import write_kit

__all__ = [
    "save",
    "save_ctranslate2",
    "save_litert",
    "translate_in_subprocess",
    "write_kit",
]
