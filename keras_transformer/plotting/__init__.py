"""Figures, traces and pages that show what a model does."""

from keras_transformer.plotting.figure_style import save_figure
from keras_transformer.plotting.heat_maps import (
    attention_figure,
    translation_figure,
)
from keras_transformer.plotting.html_pages import HtmlPage, attention_page
from keras_transformer.plotting.training_curves import training_figure

__all__ = [
    "HtmlPage",
    "attention_figure",
    "attention_page",
    "save_figure",
    "training_figure",
    "translation_figure",
]
