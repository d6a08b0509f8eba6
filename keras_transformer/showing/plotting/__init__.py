"""Functions that return a matplotlib figure, and `save_figure`."""

from keras_transformer.showing.plotting.attention import (
    attention_figure,
    translation_figure,
)
from keras_transformer.showing.plotting.corpus import corpus_figure
from keras_transformer.showing.plotting.figures import save_figure
from keras_transformer.showing.plotting.training import (
    schedule_figure,
    training_figure,
)

__all__ = [
    "attention_figure",
    "corpus_figure",
    "save_figure",
    "schedule_figure",
    "training_figure",
    "translation_figure",
]
