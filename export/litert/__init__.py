"""Exports to LiteRT, which runs models without TensorFlow."""

from keras_transformer.support.startup import require_tensorflow

require_tensorflow("Exports for LiteRT")  # before it is imported
