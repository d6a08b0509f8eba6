"""A model for LiteRT, which needs no TensorFlow to run."""

from keras_transformer.export.litert.folder import DTYPES, save_litert

__all__ = ["DTYPES", "save_litert"]
