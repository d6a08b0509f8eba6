"""The weights of a model by name, for converters.

A name is the path of a weight below its model:

    embedding/embeddings
    encoder/layer_0/self_attention/query/kernel
    decoder/layer_5/feed_forward_norm/norm/gamma

Kernels are `[inputs, outputs]`, embeddings `[V, d_model]`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from keras_transformer.support.errors import InputError

# Integers would be quantized weights without their scales.
FLOATS = ("float16", "bfloat16", "float32", "float64")


def named_weights(model: keras.Model) -> dict[str, keras.Variable]:
    """Returns the weights of a `Transformer` by name, in their order."""
    start = f"{model.name}/"
    return {w.path.removeprefix(start): w for w in model.weights}


def assign(
    model: keras.Model,
    values: Mapping[str, Any],
    shown_names: Mapping[str, str] | None = None,
    progress: Callable[[int], Any] = lambda count: None,
) -> None:
    """Assigns all weights of a `Transformer`, or none if any is invalid.

    Args:
        model: A `Transformer`.
        values: An array of floats for every name of `named_weights`. Each is
            read twice, to check and to assign it.
        shown_names: Names that the message shows instead.
        progress: Called with 1 for each weight that was checked or assigned.

    Raises:
        InputError: If weights are missing, unknown or invalid. The message
            lists all of them.
    """
    weights = named_weights(model)
    problems = {name: "missing" for name in weights if name not in values}
    for name, value in values.items():
        if name not in weights:
            problems[name] = "the model has no such weight"
        elif value.dtype.name not in FLOATS:
            problems[name] = f"{value.dtype} instead of floats"
        elif np.shape(value) != tuple(weights[name].shape):
            expected = list(weights[name].shape)
            problems[name] = f"shape {list(value.shape)} instead of {expected}"
        elif not np.isfinite(value).all():
            problems[name] = "NaN or infinite values"
        del value  # before the next one is read
        progress(1)
    if problems:
        names = {name: name for name in problems} | (shown_names or {})
        raise InputError(
            "The weights must fit the model. Received:\n"
            + "\n".join(f"{names[x]}: {y}" for x, y in problems.items())
        )
    for name in values:
        weights[name].assign(np.asarray(values[name], "float32"))
        progress(1)
