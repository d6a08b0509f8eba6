"""Figures, traces and pages that show what a model does."""

from keras_transformer.plotting.figures import (
    attention_figure,
    save_figure,
    training_figure,
    translation_figure,
)
from keras_transformer.plotting.html_pages import HtmlPage, attention_page

__all__ = [
    "HtmlPage",
    "attention_figure",
    "attention_page",
    "save_figure",
    "training_figure",
    "translation_figure",
]
