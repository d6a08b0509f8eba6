"""The weights of a model by name, for converters.

A name is the path of a weight below its model:

    embedding/embeddings
    encoder/layer_0/self_attention/query/kernel
    decoder/layer_5/feed_forward_norm/norm/gamma

Kernels are `[inputs, outputs]`, embeddings `[V, d_model]`.
"""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from keras_transformer.support.errors import InputError


def named_weights(model: keras.Model) -> dict[str, keras.Variable]:
    """Returns the weights of a `Transformer` by name, in their order."""
    start = f"{model.name}/"
    return {w.path.removeprefix(start): w for w in model.weights}


def assign(
    model: keras.Model,
    values: Mapping[str, Any],
    shown_names: Mapping[str, str] | None = None,
) -> None:
    """Assigns all weights of a model, or none.

    Args:
        model: A `Transformer`.
        values: An array for every name of `named_weights`. Each is read
            twice, and not kept.
        shown_names: What messages call a weight. Default: its name.

    Raises:
        InputError: If weights are missing, unknown or of another shape; the
            message lists all of them.
    """
    weights = named_weights(model)
    shown = {name: name for name in [*weights, *values]} | (shown_names or {})
    problems = [
        f"{shown[name]}: missing" for name in weights if name not in values
    ]
    for name, value in values.items():
        if name not in weights:
            problems.append(f"{shown[name]}: the model has no such weight")
        elif np.shape(value) != tuple(weights[name].shape):
            problems.append(
                f"{shown[name]}: shape {list(np.shape(value))} instead of "
                f"{list(weights[name].shape)}"
            )
    if problems:
        raise InputError(
            "The values must be those of the model's weights. Received:\n"
            + "\n".join(problems)
        )
    for name, value in values.items():
        weights[name].assign(value)
