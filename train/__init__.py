"""The training program; its parts can be used on their own.

Names load when they are first used, so that the command line can describe a
`Recipe` without importing TensorFlow.
"""

from typing import TYPE_CHECKING

from keras_transformer.support.lazy import lazy_names

if TYPE_CHECKING:
    from keras_transformer.train.data.corpus import Corpus, open_corpus
    from keras_transformer.train.data.pipeline import (
        evaluation_batches,
        training_batches,
    )
    from keras_transformer.train.recipe import Recipe
    from keras_transformer.train.run import TrainingRun
    from keras_transformer.train.strategy import open_strategy
    from keras_transformer.train.trainer import train

__all__ = [
    "Corpus",
    "Recipe",
    "TrainingRun",
    "evaluation_batches",
    "open_corpus",
    "open_strategy",
    "train",
    "training_batches",
]

_, __getattr__, __dir__ = lazy_names(__name__)
