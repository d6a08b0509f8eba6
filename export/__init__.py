"""The export program: one SavedModel that takes and returns text.

`save_ctranslate2` writes a folder for CTranslate2.
"""

from keras_transformer.export.ctranslate2 import save_ctranslate2
from keras_transformer.export.saved_model import save, translate_in_subprocess
from keras_transformer.export.serving_kit import write_kit

__all__ = [
    "save",
    "save_ctranslate2",
    "translate_in_subprocess",
    "write_kit",
]
