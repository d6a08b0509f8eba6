"""Writes a `Translator` as a folder for LiteRT, and verifies it."""

import dataclasses
import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_transformer.decoding.settings import BeamSearch, converted
from keras_transformer.export.litert.flatbuffer import finalize_model
from keras_transformer.export.litert.graph import LiteRTGraphs
from keras_transformer.export.writing import check_problems, write_export
from keras_transformer.inference.opening import open_translator
from keras_transformer.inference.translator import Translator
from keras_transformer.litert import MODEL_FILE

# The search of an export may be replaced by one with a beam of this size.
_USUAL_BEAM_SIZE = 4


def save_litert(
    translator: Translator,
    path: str | os.PathLike,
    dtype: str = "float32",
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """Writes a folder that translates with LiteRT, without TensorFlow.

    It contains `model.tflite` with the signatures `encode` and `decode_step`,
    the files of the tokenizer, `keras_transformer.json` with metadata, and a
    README. `kt.open_translator` opens it; `docs/litert-format.md` describes it
    for programs in other languages. The package ai-edge-litert is needed: the
    extra `[litert]`.

    Args:
        translator: What to save: one model or several, in float32. Its search
            and number of translations are the defaults of the folder. A
            search with up to its beam size, and at least 4, is possible.
        path: Folder to create.
        dtype: Of the weights: float32; float16, which halves the file and is
            computed in float32; or int8, with a scale per row, which is the
            fastest.
        metadata: JSON values to add to `keras_transformer.json`.

    Returns:
        The folder.

    Raises:
        InputError: If `path` exists, weights are not float32, or models of an
            ensemble differ in their attention window.
        RuntimeError: If the results of the folder differ.
    """
    check_problems("litert", _problems(translator))
    search = converted(translator.search, BeamSearch)
    largest = max(search.beam_size, _USUAL_BEAM_SIZE)
    special_ids = translator.engine.special_ids
    # Of K hypotheses, 2K continuations are needed that are not banned.
    candidates = 2 * largest + len(special_ids.banned_ids)
    if search.no_repeat_ngram:  # which may ban one for each token before
        candidates += translator.max_length

    def write(folder: Path) -> dict[str, Any]:
        limits = (translator.max_length, candidates)
        content = _convert(LiteRTGraphs(translator.models, *limits), dtype)
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


def _problems(translator: Translator) -> Iterator[str]:
    """Yields what the graphs and their metadata lack for some models."""
    dtypes = {model.dtype_policy.name for model in translator.models}
    windows = {model.config.attention_window for model in translator.models}
    if dtypes != {"float32"}:
        yield f"dtype={', '.join(sorted(dtypes))}, open it in float32"
    if len(windows) > 1:
        yield f"attention_window={', '.join(map(str, windows))}"


def _convert(graphs: LiteRTGraphs, dtype: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        signatures = graphs.signatures()
        tf.saved_model.save(graphs, folder, signatures=signatures)
        # The first signature by name, `decode_step`, is the main graph.
        converter = tf.lite.TFLiteConverter.from_saved_model(
            folder, signature_keys=sorted(signatures)
        )
        if dtype == "float16":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.target_spec.supported_types = [tf.float16]
        return finalize_model(converter.convert(), int8=dtype == "int8")
