"""The web page of a model, and TensorFlow Serving's REST API."""

from keras_transformer.serving.server import (
    check_installed,
    listen,
    make_app,
    serve,
)

__all__ = ["check_installed", "listen", "make_app", "serve"]
