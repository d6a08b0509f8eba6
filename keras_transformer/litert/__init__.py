"""Translates without TensorFlow and Keras, with a model exported for LiteRT."""

from typing import TYPE_CHECKING

from keras_transformer.decoding.settings import BeamSearch as BeamSearch
from keras_transformer.support.lazy import lazy_names

if TYPE_CHECKING:
    from keras_transformer.litert.lite_translator import (
        LiteRTTranslator as LiteRTTranslator,
    )

_NAMES = {"lite_translator": "LiteRTTranslator"}

__all__, __getattr__, __dir__ = lazy_names(__name__, _NAMES)

MODEL_FILE = "model.tflite"
METADATA_FILE = "keras_transformer.json"
