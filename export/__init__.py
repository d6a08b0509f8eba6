"""The export program: one SavedModel that takes and returns text."""

from keras_transformer.export.saved_model import save, translate_in_subprocess
from keras_transformer.export.serving_kit import write_kit

__all__ = ["save", "translate_in_subprocess", "write_kit"]
