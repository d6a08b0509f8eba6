"""The export program: text in, text out, as one SavedModel."""

from keras_transformer.export.saved_model import save, translate_alone
from keras_transformer.export.translator import Translation, Translator

__all__ = ["Translation", "Translator", "save", "translate_alone"]
