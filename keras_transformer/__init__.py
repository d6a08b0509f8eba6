"""The Transformer of "Attention Is All You Need", in Keras 3.

    import keras_transformer as kt

Names load when they are first used, so that the layers, the model, losses
and schedules work where TensorFlow is not installed. With the first of them
every class that Keras saves is registered: `from keras_transformer import
Transformer` is enough before `keras.models.load_model`.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "BeamSearch": "keras_transformer.decoding",
    "InputError": "keras_transformer.errors",
    "Run": "keras_transformer.run",
    "LabelSmoothedCrossEntropy": "keras_transformer.losses",
    "Perplexity": "keras_transformer.metrics",
    "TokenAccuracy": "keras_transformer.metrics",
    "TokenNLL": "keras_transformer.metrics",
    "Tokenizer": "keras_transformer.text",
    "Transformer": "keras_transformer.model",
    "TransformerConfig": "keras_transformer.config",
    "Translator": "keras_transformer.translator",
    "WarmupInverseSquareRoot": "keras_transformer.schedules",
}
_MODULES = (
    "decoding",
    "export",
    "layers",
    "losses",
    "masks",
    "metrics",
    "optimizers",
    "presets",
    "schedules",
    "text",
    "train",
)
# What holds classes that `keras.models.load_model` may meet.
_REGISTERED = ("model", "losses", "metrics", "schedules")

__all__ = [*_HOME, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"keras_transformer.{name}")
    if name in _HOME:
        for module in _REGISTERED:
            importlib.import_module(f"keras_transformer.{module}")
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
