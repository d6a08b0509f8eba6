"""The training program; its data pipeline also serves your own `fit`."""

from keras_transformer.train.pipeline import (
    evaluation_batches,
    training_batches,
)
from keras_transformer.train.sources import Corpus, open_corpus

__all__ = ["Corpus", "evaluation_batches", "open_corpus", "training_batches"]
