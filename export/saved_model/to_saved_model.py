"""Exports a `Translator` to a SavedModel, and verifies it."""

import importlib.util
import os
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_transformer.export.saved_model.signatures import (
    SIGNATURES,
    Signatures,
)
from keras_transformer.export.writing import write_export
from keras_transformer.inference.opening import open_translator
from keras_transformer.inference.translator import Translator

_WORDS = "I am a student and I read a book in the old house . "
_WARMUP_TEXTS = ("Yes.", _WORDS, _WORDS * 3, _WORDS * 7)  # to about 100 tokens


def save(
    translator: Translator,
    path: str | os.PathLike,
    signatures: Iterable[str] | None = None,
) -> Path:
    """Writes a SavedModel that takes strings and returns translations.

    The SavedModel requires only TensorFlow and tensorflow-text; docs/serving.md
    describes its signatures. If the package tensorflow-serving-api is
    installed, the export contains warm-up requests for TensorFlow Serving.

    Args:
        translator: The translator to export, with its search and number of
            translations.
        path: Folder to create. TensorFlow Serving expects its name to be a
            version number, as in `models/en-de/1`.
        signatures: Names of signatures to write in addition to
            `serving_default` and `score`. The fewer, the faster the model
            loads. Default: all.

    Returns:
        The folder.

    Raises:
        InputError: If `path` exists or a signature is unknown.
        RuntimeError: If the SavedModel gives different results.
    """
    # A plain module: a Keras model's weights would be written twice.
    module = Signatures(translator)
    module.functions = functions = module.make(signatures)
    dtype = translator.model.compute_dtype

    def write(folder: Path) -> dict[str, Any]:
        tf.saved_model.save(module, folder, signatures=functions)
        if importlib.util.find_spec("tensorflow_serving") is not None:
            _write_warmup(folder, Path(path).resolve().parent.name, functions)
        return {
            "tensorflow": tf.__version__,
            "signatures": sorted(functions),
            "languages": list(translator.tokenizer.languages),
        }

    return write_export(
        translator, path, "saved-model", dtype, write, open_translator
    )


def _write_warmup(folder: Path, model: str, signatures: Iterable[str]) -> None:
    """Writes requests that TensorFlow Serving replays after loading."""
    from tensorflow_serving.apis import prediction_log_pb2

    names = [name for name in signatures if len(SIGNATURES[name]) == 1]
    file = folder / "assets.extra" / "tf_serving_warmup_requests"
    file.parent.mkdir()
    with tf.io.TFRecordWriter(str(file)) as writer:
        for name, text, size in product(names, _WARMUP_TEXTS, (1, 8)):
            log = prediction_log_pb2.PredictionLog()
            request = log.predict_log.request
            request.model_spec.name = model
            request.model_spec.signature_name = name
            request.inputs["text"].CopyFrom(tf.make_tensor_proto([text] * size))
            writer.write(log.SerializeToString())
