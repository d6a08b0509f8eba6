"""A model for LiteRT, which needs no TensorFlow to run."""

from keras_transformer.export.litert.folder import save_litert

__all__ = ["save_litert"]
