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

    @property
    def built(self) -> bool:
        """Whether all weights are there; Keras sets it after `build`."""
        return self._is_built

    @built.setter
    def built(self, is_built: bool) -> None:
        self._is_built = is_built
        if is_built:
            keep_frozen(self)

    def compute_output_shape(
        self, input_shape: Any = None, *others: tuple, **named: tuple
    ) -> tuple:
        # Keras passes the first shape, or all under the names of `build`.
        return input_shape or next(iter(named.values()))


class WithScores(SameShape):
    """Base class: `call` has an argument `return_attention_scores`."""

    def compute_output_spec(self, *inputs: Any, **named: Any) -> Any:
        if named.get("return_attention_scores"):
            # Of more than one output: from `call`.
            return keras.Operation.compute_output_spec(self, *inputs, **named)
        return super().compute_output_spec(*inputs, **named)


def check_ready(layer: keras.layers.Layer, method: str, x: Any) -> None:
    """Raises a ValueError unless a method has weights and a tensor.

    Calls of a layer, unlike its other methods, build it and accept symbolic
    tensors.
    """
    if layer.built and not isinstance(x, keras.KerasTensor):
        return
    received = "a symbolic tensor" if layer.built else "a layer without weights"
    raise ValueError(
        f"{type(layer).__name__}.{method} neither builds the layer nor takes "
        "part in a functional model. Call the layer first, or its `build`; in "
        f"a functional model, use `{method}` within the `call` of a layer. "
        f"Received: {received}"
    )


def arguments_of(layer: keras.layers.Layer, cls: type) -> dict[str, Any]:
    """Returns the arguments of a class that a layer has as attributes."""
    _, *names, _ = inspect.signature(cls.__init__).parameters
    return {name: getattr(layer, name) for name in names}


def keep_frozen(layer: keras.layers.Layer) -> None:
    """Passes `trainable=False` on to sub-layers, which `build` has made.

    Keras asks every weight whether it is trainable.
    """
    if not layer.trainable:
        # TensorFlow ignores an attribute's assignment of the value that it
        # has, and would not reach the new sub-layers.
        layer.trainable = True
        layer.trainable = False


def check_sizes(optional: dict[str, Any] | None = None, **sizes: Any) -> None:
    """Raises a ValueError unless sizes are positive; `optional` may be None."""
    for name, size in (optional or {}).items():
        if size is not None:
            sizes[name] = size
    check_values(POSITIVE_INTEGER, **sizes)
