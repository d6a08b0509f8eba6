"""The training program; its parts can be used on their own.

Names load when they are first used, so that the command line can describe a
`Recipe` without importing TensorFlow.
"""

from typing import TYPE_CHECKING

from keras_transformer.support.lazy import lazy_names

if TYPE_CHECKING:
    from keras_transformer.train.data.batching import (
        evaluation_batches as evaluation_batches,
    )
    from keras_transformer.train.data.batching import (
        training_batches as training_batches,
    )
    from keras_transformer.train.data.corpus import Corpus as Corpus
    from keras_transformer.train.data.corpus import open_corpora as open_corpora
    from keras_transformer.train.data.corpus import open_corpus as open_corpus
    from keras_transformer.train.recipe import Recipe as Recipe
    from keras_transformer.train.strategy import open_strategy as open_strategy
    from keras_transformer.train.trainer import train as train
    from keras_transformer.train.training_run import TrainingRun as TrainingRun

_NAMES = {
    "data.batching": "evaluation_batches training_batches",
    "data.corpus": "Corpus open_corpora open_corpus",
    "recipe": "Recipe",
    "strategy": "open_strategy",
    "trainer": "train",
    "training_run": "TrainingRun",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _NAMES)
