"""Translates without TensorFlow and Keras, with a model exported for LiteRT."""

from typing import TYPE_CHECKING

from keras_transformer.support.lazy import lazy_names

if TYPE_CHECKING:
    from keras_transformer.litert.folder import is_litert as is_litert
    from keras_transformer.litert.translator import (
        LiteRTTranslator as LiteRTTranslator,
    )

__all__, __getattr__, __dir__ = lazy_names(__name__)
