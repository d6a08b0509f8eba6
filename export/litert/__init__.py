"""A model for LiteRT, which needs no TensorFlow to run."""

from keras_transformer.export.litert.to_litert import save_litert

__all__ = ["save_litert"]
