"""Figures, traces and pages that show what a model does."""

from typing import TYPE_CHECKING

from keras_transformer.support.lazy import lazy_names

if TYPE_CHECKING:
    from keras_transformer.plotting.curves import (
        corpus_figure,
        positions_figure,
        schedule_figure,
        training_figure,
    )
    from keras_transformer.plotting.figures import save_figure
    from keras_transformer.plotting.heat_maps import (
        attention_figure,
        masks_figure,
        translation_figure,
    )

__all__ = [
    "attention_figure",
    "corpus_figure",
    "masks_figure",
    "positions_figure",
    "save_figure",
    "schedule_figure",
    "training_figure",
    "translation_figure",
]

_, __getattr__, __dir__ = lazy_names(__name__)
