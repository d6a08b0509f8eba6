"""Writes a `Translator` as a folder that `LiteRTTranslator` opens."""

import dataclasses
import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_transformer.decoding.settings import BeamSearch, converted
from keras_transformer.export.dtypes import check_dtype
from keras_transformer.export.litert.flatbuffer import finalize_model
from keras_transformer.export.litert.graph import LiteRTGraphs
from keras_transformer.export.verification import check_scores
from keras_transformer.export.writing import installed_from, write_export
from keras_transformer.inference.translator import Translator
from keras_transformer.litert import MODEL_FILE
from keras_transformer.litert.lite_folder import FORMAT
from keras_transformer.litert.lite_translator import LiteRTTranslator
from keras_transformer.support.errors import InputError

# The search of an export may be replaced by one with a beam of this size.
_USUAL_BEAM_SIZE = 4


def save_litert(
    translator: Translator,
    path: str | os.PathLike,
    dtype: str = "float32",
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """Writes a folder that translates with LiteRT, without TensorFlow.

    It has `model.tflite` with the signatures `encode` and `decode_step`, the
    files of the tokenizer, `keras_transformer.json` with metadata, and a
    README. `keras_transformer.litert.LiteRTTranslator` translates with it;
    `docs/litert-format.md` says what a program in another language must do.

    Before the folder is moved to `path`, LiteRT opens it: its
    log-probabilities of given texts must be those of the model, to 1e-4 per
    token with float32, 0.02 with float16 and 0.5 with int8. The package
    ai-edge-litert is needed: the extra `[litert]`.

    Args:
        translator: What to save: one model or several, in float32. Its search
            and number of translations are the defaults of the folder. A
            search with up to its beam size, and at least 4, is possible.
        path: Folder to create.
        dtype: Of the weights: float32; float16, which halves the file and is
            computed in float32; or int8, with a scale per row, which is the
            fastest.
        metadata: What to add to `keras_transformer.json`: values that JSON
            can hold.

    Returns:
        The folder.

    Raises:
        InputError: If `path` exists, weights are not finite or not float32,
            the models have an attention of their own or an operation that
            LiteRT lacks, or names of metadata are taken.
        RuntimeError: If the results of the folder differ.
    """
    check_dtype("litert", dtype)
    _check_supported(translator)
    search = converted(translator.search, BeamSearch)
    largest = max(search.beam_size, _USUAL_BEAM_SIZE)
    special_ids = translator.pipeline.special_ids
    # Of K hypotheses, 2K continuations are needed that are not banned.
    candidates = 2 * largest + len(special_ids.banned_ids)
    if search.no_repeat_ngram:  # which may ban one for each token before
        candidates += translator.max_length
    described = {
        "format": FORMAT,
        "tensorflow": tf.__version__,
        "dtype": dtype,
        "search": dataclasses.asdict(search),
        "model_sha256": None,  # until it is written
        "attention_window": translator.model.config.attention_window,
        "largest_beam_size": largest,
        **special_ids._asdict(),
    }

    def write(folder: Path) -> dict[str, Any]:
        limits = (translator.max_length, candidates)
        content = _convert(LiteRTGraphs(translator.models, *limits), dtype)
        (folder / MODEL_FILE).write_bytes(content)
        translator.tokenizer.save_files(folder)
        return {"model_sha256": hashlib.sha256(content).hexdigest()}

    def verify(folder: Path) -> None:
        score = LiteRTTranslator.open(folder).score
        check_scores(score, translator, "litert", dtype)

    files = [f"`{name}`" for name in translator.tokenizer.files()]
    values = dict(dtype=dtype, vocabulary=", ".join(files))
    values["installed_from"] = installed_from()
    readme = "litert.md", values
    return write_export(
        translator, path, write, verify, described, metadata, readme
    )


def _check_supported(translator: Translator) -> None:
    dtypes = {model.dtype_policy.name for model in translator.models}
    windows = {model.config.attention_window for model in translator.models}
    if dtypes != {"float32"}:
        raise InputError(
            "A model to export to LiteRT must be opened in float32; the export "
            f"converts it. Received: dtype={', '.join(sorted(dtypes))}"
        )
    if len(windows) > 1:
        raise InputError(
            "Models that are exported to LiteRT together must have the same "
            f"attention_window. Received: {sorted(windows, key=str)}"
        )


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
        # Operators that LiteRT lacks become custom ones, which are refused.
        converter.allow_custom_ops = True
        return finalize_model(converter.convert(), int8=dtype == "int8")
