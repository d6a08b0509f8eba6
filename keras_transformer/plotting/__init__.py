"""Figures, traces and pages that show what a model does."""

from typing import TYPE_CHECKING

from keras_transformer.support.lazy import lazy_names

if TYPE_CHECKING:
    from keras_transformer.plotting.curves import corpus_figure as corpus_figure
    from keras_transformer.plotting.curves import (
        positions_figure as positions_figure,
    )
    from keras_transformer.plotting.curves import (
        schedule_figure as schedule_figure,
    )
    from keras_transformer.plotting.curves import (
        training_figure as training_figure,
    )
    from keras_transformer.plotting.figures import save_figure as save_figure
    from keras_transformer.plotting.heat_maps import (
        attention_figure as attention_figure,
    )
    from keras_transformer.plotting.heat_maps import (
        masks_figure as masks_figure,
    )
    from keras_transformer.plotting.heat_maps import (
        translation_figure as translation_figure,
    )

_PATHS = {
    "attention_figure": "heat_maps:attention_figure",
    "corpus_figure": "curves:corpus_figure",
    "masks_figure": "heat_maps:masks_figure",
    "positions_figure": "curves:positions_figure",
    "save_figure": "figures:save_figure",
    "schedule_figure": "curves:schedule_figure",
    "training_figure": "curves:training_figure",
    "translation_figure": "heat_maps:translation_figure",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _PATHS)
