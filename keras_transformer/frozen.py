"""Layers inside a layer that are not trained, named as `decoder/layer_0`."""

from collections.abc import Iterable

import keras

from keras_transformer.fit.keras_overrides import inner_layers


def keep_frozen(layer: keras.layers.Layer) -> None:
    """Passes `trainable=False` on to the sub-layers that `build` made."""
    if not layer.trainable:
        # TensorFlow ignores the assignment of an unchanged value, which then
        # does not reach the new sub-layers.
        layer.trainable = True
        layer.trainable = False


def freeze(layer: keras.layers.Layer, names: Iterable[str]) -> None:
    """Sets `trainable` of the named layers inside a built layer to False."""
    for name in names:
        part = layer
        for step in name.split("/"):
            parts = {x.name: x for x in inner_layers(part)}
            if step not in parts:
                raise ValueError(
                    f"frozen must contain names of layers. Received: {name!r}. "
                    f"The layers in {part.name} are {', '.join(parts)}."
                )
            part = parts[step]
        part.trainable = False


def frozen_layers(layer: keras.layers.Layer, prefix: str = "") -> list[str]:
    """Returns the names to freeze in a new layer; none if all are frozen."""
    names: list[str] = []
    for part in inner_layers(layer) if layer.trainable else ():
        name = prefix + part.name
        names += frozen_layers(part, f"{name}/") if part.trainable else [name]
    return names
