"""Shape of the output, config and sizes, for all layers."""

import inspect
from typing import Any

import keras

from keras_transformer.quantized import policy_to_save
from keras_transformer.support.fields import POSITIVE_INTEGER, check_values


class SameShape(keras.layers.Layer):
    """Base class: the output has the shape and the mask of the first input."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def get_config(self) -> dict[str, Any]:
        dtype = keras.dtype_policies.serialize(policy_to_save(self))
        return super().get_config() | dict(dtype=dtype)

    def compute_output_shape(
        self, input_shape: Any = None, *others: tuple, **named: tuple
    ) -> tuple:
        # Keras passes the first shape, or all under the names of `build`.
        return input_shape or next(iter(named.values()))

    def compute_output_spec(self, *inputs: Any, **named: Any) -> Any:
        if named.get("return_attention_scores"):
            # More than one output: traced from `call`.
            return keras.Operation.compute_output_spec(self, *inputs, **named)
        return super().compute_output_spec(*inputs, **named)


def arguments_of(layer: keras.layers.Layer, cls: type) -> dict[str, Any]:
    """Returns the constructor arguments of a class, from a layer of it."""
    _, *names, _ = inspect.signature(cls.__init__).parameters
    return {name: getattr(layer, name) for name in names}


def check_sizes(**sizes: int | None) -> None:
    """Raises a ValueError unless sizes are positive, or None."""
    sizes = {name: x for name, x in sizes.items() if x is not None}
    check_values(POSITIVE_INTEGER, **sizes)
