"""The Transformer of "Attention Is All You Need" in Keras 3.

    import keras_transformer as kt

Public names are imported when they are first used; `__init__.pyi` lists them.
The layers, the model, losses, metrics and schedules work without TensorFlow, on
the JAX and PyTorch backends of Keras. Using any of them registers all classes
with Keras, so that `keras.models.load_model` finds them.
"""

import os

from keras_transformer.support.lazy import lazy_names
from keras_transformer.support.logs import print_log_messages

__version__ = "0.1.0"

# For HDF5, which Keras loads: not every disk has locks, and a run has its own.
os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")

# Modules with classes that `keras.models.load_model` may need.
_REGISTERED = ("model", "losses", "metrics", "optimizers", "schedules")
# An export for LiteRT is opened where Keras has no backend.
_WITHOUT_KERAS = {
    "BeamSearch",
    "InputError",
    "Sampling",
    "open_translator",
    "parsing",
    "trace",
}

__all__, __getattr__, __dir__ = lazy_names(
    __name__, _REGISTERED, _WITHOUT_KERAS
)

print_log_messages()
