"""The engine of models exported for LiteRT, without TensorFlow and Keras."""

from keras_transformer.support.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
