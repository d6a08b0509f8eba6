"""Bulk translation on Apache Beam, which needs the extra `beam`."""

from typing import TYPE_CHECKING

from keras_transformer.support.lazy import lazy_names

if TYPE_CHECKING:
    from keras_transformer.beam.translate_transform import Failed as Failed
    from keras_transformer.beam.translate_transform import (
        Translate as Translate,
    )
    from keras_transformer.beam.translate_transform import (
        Translated as Translated,
    )

_NAMES = {"translate_transform": "Failed Translate Translated"}

__all__, __getattr__, __dir__ = lazy_names(__name__, _NAMES)
