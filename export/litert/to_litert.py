"""Exports a `Translator` to a folder for LiteRT, and verifies it."""

import dataclasses
import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_transformer.decoding.settings import BeamSearch, converted
from keras_transformer.export.litert.flatbuffer import finalize_model
from keras_transformer.export.litert.graph import make_signatures
from keras_transformer.export.writing import check_problems, write_export
from keras_transformer.inference.opening import open_translator
from keras_transformer.inference.translator import Translator
from keras_transformer.litert import MODEL_FILE

# Exports support searches with at least this beam size.
_MIN_BEAM_SIZE = 4


def save_litert(
    translator: Translator,
    path: str | os.PathLike,
    dtype: str = "float32",
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """Writes a folder that translates with LiteRT, without TensorFlow.

    The folder contains `model.tflite` with the signatures `encode` and
    `decode_step`, the tokenizer files, metadata in `keras_transformer.json`,
    and a README. `kt.open_translator` opens it; `docs/litert-format.md`
    describes it for programs in other languages. Requires the package
    ai-edge-litert: the extra `[litert]`.

    Args:
        translator: The translator to export: a float32 model or ensemble. Its
            search and number of translations become the defaults of the
            export, which supports beam sizes up to the search's or 4,
            whichever is larger.
        path: Folder to create.
        dtype: Dtype of the stored weights: float32; float16, which halves the
            file and is computed in float32; or int8 with a scale per row,
            which is the fastest.
        metadata: JSON values to add to `keras_transformer.json`.

    Returns:
        The folder.

    Raises:
        InputError: If `path` exists, or the model is not in float32.
        RuntimeError: If the export gives different results.
    """
    dtypes = {model.dtype_policy.name for model in translator.models}
    problems = [f"dtype={x} (open in float32)" for x in dtypes - {"float32"}]
    check_problems("litert", problems)
    search = converted(translator.search, BeamSearch)
    largest = max(search.beam_size, _MIN_BEAM_SIZE)
    special_ids = translator.engine.special_ids
    # K hypotheses need 2K continuations that are not banned.
    candidates = 2 * largest + len(special_ids.banned_ids)
    if search.no_repeat_ngram:  # may ban one token per previous token
        candidates += translator.max_length

    def write(folder: Path) -> dict[str, Any]:
        content = _convert(translator, candidates, dtype)
        (folder / MODEL_FILE).write_bytes(content)
        translator.tokenizer.save_files(folder)
        return {
            "tensorflow": tf.__version__,
            "dtype": dtype,
            "search": dataclasses.asdict(search),
            "model_sha256": hashlib.sha256(content).hexdigest(),
            "attention_window": translator.model.config.attention_window,
            "largest_beam_size": largest,
            **special_ids._asdict(),
        }

    return write_export(
        translator, path, "litert", dtype, write, open_translator, metadata
    )


def _convert(translator: Translator, num_candidates: int, dtype: str) -> bytes:
    models = translator.models
    signatures = make_signatures(models, translator.max_length, num_candidates)
    module = tf.Module()
    # A SavedModel tracks variables through attributes.
    module.weights = [w.value for model in models for w in model.weights]
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures=signatures)
        # The first key, `decode_step`, becomes the main graph.
        converter = tf.lite.TFLiteConverter.from_saved_model(
            folder, signature_keys=sorted(signatures)
        )
        if dtype == "float16":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.target_spec.supported_types = [tf.float16]
        return finalize_model(converter.convert(), int8=dtype == "int8")
