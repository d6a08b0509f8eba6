"""Figures, traces and pages that show what a model does."""

from typing import TYPE_CHECKING

from keras_transformer.support.lazy import lazy_names

if TYPE_CHECKING:
    from keras_transformer.plotting.figure_style import (
        save_figure as save_figure,
    )
    from keras_transformer.plotting.heat_maps import (
        attention_figure as attention_figure,
    )
    from keras_transformer.plotting.heat_maps import (
        masks_figure as masks_figure,
    )
    from keras_transformer.plotting.heat_maps import (
        translation_figure as translation_figure,
    )
    from keras_transformer.plotting.html_pages import HtmlPage as HtmlPage
    from keras_transformer.plotting.html_pages import (
        attention_page as attention_page,
    )
    from keras_transformer.plotting.tracing import Trace as Trace
    from keras_transformer.plotting.tracing import trace as trace
    from keras_transformer.plotting.training_curves import (
        training_figure as training_figure,
    )

_PATHS = {
    "HtmlPage": "html_pages:HtmlPage",
    "Trace": "tracing:Trace",
    "attention_figure": "heat_maps:attention_figure",
    "attention_page": "html_pages:attention_page",
    "masks_figure": "heat_maps:masks_figure",
    "save_figure": "figure_style:save_figure",
    "trace": "tracing:trace",
    "training_figure": "training_curves:training_figure",
    "translation_figure": "heat_maps:translation_figure",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _PATHS)
