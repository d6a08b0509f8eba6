"""Exports trained models to other runtimes.

`save` writes a SavedModel that takes and returns text, `save_litert` a folder
for LiteRT, `save_ctranslate2` a folder for CTranslate2, `save_huggingface` a
folder for Hugging Face's transformers, and `save_argos` a package for Argos
Translate and LibreTranslate.
"""

from keras_transformer.support.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
