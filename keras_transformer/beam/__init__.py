"""Bulk translation on Apache Beam, which needs the extra `beam`."""

from typing import TYPE_CHECKING

from keras_transformer.support.lazy import lazy_names

if TYPE_CHECKING:
    from keras_transformer.beam.translating import Translate as Translate
    from keras_transformer.beam.translating import Translated as Translated
    from keras_transformer.beam.translating import (
        TranslationHandler as TranslationHandler,
    )

_PATHS = {
    "Translate": "translating:Translate",
    "Translated": "translating:Translated",
    "TranslationHandler": "translating:TranslationHandler",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _PATHS)
