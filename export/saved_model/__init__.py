"""Exports to SavedModels, which take and return text."""

from keras_transformer.support.startup import require_tensorflow

require_tensorflow("SavedModels")  # before it is imported
