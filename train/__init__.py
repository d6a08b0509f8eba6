"""The training program; its parts can be used on their own.

Names load when they are first used, so that the command line can describe a
`Recipe` without importing TensorFlow.
"""

from keras_transformer.support.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
