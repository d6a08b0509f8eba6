"""What layers share: the shape of their output, their config and checks."""

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
    """Returns the arguments of a class of a layer, which are its attributes."""
    _, *names, _ = inspect.signature(cls.__init__).parameters
    return {name: getattr(layer, name) for name in names}


def check_sizes(optional: dict[str, Any] | None = None, **sizes: Any) -> None:
    """Raises a ValueError unless sizes are positive integers.

    Those in `optional` may be None.
    """
    given = {k: x for k, x in (optional or {}).items() if x is not None}
    check_values(POSITIVE_INTEGER, **sizes, **given)
