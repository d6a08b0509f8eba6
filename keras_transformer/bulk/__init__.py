"""Bulk translation on Apache Beam, which needs the extra `beam`."""

from keras_transformer.support.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
