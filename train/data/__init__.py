"""The data of the training program: corpora, ids and batches."""

from keras_transformer.train.data.corpus import Corpus, open_corpus
from keras_transformer.train.data.pipeline import (
    evaluation_batches,
    training_batches,
)

__all__ = [
    "Corpus",
    "evaluation_batches",
    "open_corpus",
    "training_batches",
]
