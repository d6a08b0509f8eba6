"""The search: its settings, which need no TensorFlow, and its steps.

A search depends on a step function and not on a model. Names load when they
are first used.
"""

from keras_transformer.support.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
