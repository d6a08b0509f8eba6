"""Writes a `Translator` as a SavedModel, and verifies it."""

import importlib.util
import itertools
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_transformer.export.saved_model.exported_signatures import (
    SIGNATURES,
    Signatures,
)
from keras_transformer.export.writing import write_export
from keras_transformer.inference.saved_model import SavedModelTranslator
from keras_transformer.inference.translator import Translator

# Texts of 1 to about 100 tokens.
_WORDS = "I am a student and I read a book in the old house . "
_WARMUP_TEXTS = ("Yes.", _WORDS, _WORDS * 3, _WORDS * 7)


def save(
    translator: Translator,
    path: str | os.PathLike,
    signatures: Iterable[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """Writes a SavedModel that takes strings and returns translations.

    Its signature `serving_default` takes `text`, a string tensor `[B]`, and
    returns `translations` `[B, n]`, `scores` float32 `[B, n]`, best first,
    and booleans `[B]`: `source_truncated` and `at_length_limit`.
    `SIGNATURES` of `exported_signatures.py` lists the others. The model needs
    TensorFlow and tensorflow-text only: TensorFlow Serving has both, and in
    Python `import tensorflow_text` comes before loading. Where the package
    tensorflow-serving-api is installed, the model contains requests that warm
    up TensorFlow Serving.

    Before the model is moved to `path`, it is loaded: its log-probabilities of
    given texts must be those of `translator`.

    Args:
        translator: What to save, with its search and number of translations.
        path: Folder to create. TensorFlow Serving expects its name to be a
            version number, as in `models/en-de/1`.
        signatures: Names of signatures to write, besides `serving_default`
            and `score`. Fewer make the model faster to load. Default: all.
        metadata: What to add to `assets.extra/keras_transformer.json`: values
            that JSON can hold.

    Returns:
        The folder.

    Raises:
        InputError: If `path` exists, the model has weights that are not
            finite, or a signature is unknown.
        RuntimeError: If the results of the SavedModel differ.
    """
    module = Signatures(translator)
    functions = module.make(signatures)
    # The attributes of the module are bare variables and operations: the
    # Keras model itself would be written twice.
    module.functions = functions

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
        translator,
        path,
        "saved-model",
        translator.model.compute_dtype,
        write,
        lambda folder: SavedModelTranslator.open(folder).score,
        metadata,
    )


def _write_warmup(folder: Path, model: str, signatures: Iterable[str]) -> None:
    """Writes requests that TensorFlow Serving replays when it has loaded."""
    from tensorflow_serving.apis import prediction_log_pb2

    names = [name for name in signatures if len(SIGNATURES[name]) == 1]
    file = folder / "assets.extra" / "tf_serving_warmup_requests"
    file.parent.mkdir()
    with tf.io.TFRecordWriter(str(file)) as writer:
        for name, text, batch in itertools.product(
            names, _WARMUP_TEXTS, (1, 8)
        ):
            log = prediction_log_pb2.PredictionLog()
            request = log.predict_log.request
            request.model_spec.name = model
            request.model_spec.signature_name = name
            tensor = tf.make_tensor_proto([text] * batch)
            request.inputs["text"].CopyFrom(tensor)
            writer.write(log.SerializeToString())
