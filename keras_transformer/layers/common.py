"""Shape of the output, config and checks, for all layers."""

import inspect
from typing import Any

import keras

from keras_transformer.support.fields import POSITIVE_INTEGER, check_values


class SameShape(keras.layers.Layer):
    """Base class: the output has the shape and the mask of the first input."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def compute_output_shape(
        self, input_shape: Any = None, *others: tuple, **named: tuple
    ) -> tuple:
        # Keras passes the first shape, or all under the names of `build`.
        return input_shape or next(iter(named.values()))


def arguments_of(layer: keras.layers.Layer, cls: type) -> dict[str, Any]:
    """Returns the arguments of a class that a layer has as attributes."""
    _, *names, _ = inspect.signature(cls.__init__).parameters
    return {name: getattr(layer, name) for name in names}


def keep_frozen(layer: keras.layers.Layer) -> None:
    """Passes `trainable=False` on to sub-layers, which `build` has made.

    Keras asks every weight whether it is trainable.
    """
    if not layer.trainable:
        layer.trainable = True  # TensorFlow ignores what is assigned again
        layer.trainable = False


def check_sizes(optional: dict[str, Any] | None = None, **sizes: Any) -> None:
    """Raises a ValueError unless sizes are positive; `optional` may be None."""
    for name, size in (optional or {}).items():
        if size is not None:
            sizes[name] = size
    check_values(POSITIVE_INTEGER, **sizes)
