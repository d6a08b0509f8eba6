"""The web page of a model."""

from keras_transformer.web.server import listen, make_app, serve

__all__ = ["listen", "make_app", "serve"]
