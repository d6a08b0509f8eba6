"""Pages for a browser: one HTML file each, which needs no network."""

from keras_transformer.showing.pages.attention import attention_page
from keras_transformer.showing.pages.rendering import Page, render

__all__ = ["Page", "attention_page", "render"]
