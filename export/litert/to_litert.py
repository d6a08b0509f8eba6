"""Exports a `Translator` to a folder for LiteRT, and verifies it."""

import dataclasses
import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.decoding.settings import BeamSearch, converted
from keras_transformer.export import writing
from keras_transformer.export.litert import flatbuffer, graph
from keras_transformer.inference.exports import MODEL_FILE
from keras_transformer.inference.opening import open_translator
from keras_transformer.inference.translator import Translator
from keras_transformer.litert.shortlist import SHORTLIST_FILE, Shortlist
from keras_transformer.model import Transformer
from keras_transformer.support.files import atomic_folder


def save_litert(
    translator: Translator,
    path: str | os.PathLike,
    dtype: str = "float32",
    shortlist: Shortlist | None = None,
) -> Path:
    """Writes a folder that translates with LiteRT, without TensorFlow.

    The folder contains `model.tflite` with the signatures `encode` and
    `decode_step`, the tokenizer files, metadata in `keras_transformer.json`,
    and a README. `kt.open_translator` opens it; `docs/litert-format.md`
    describes it for programs in other languages. Requires the package
    ai-edge-litert: the extra `[litert]`.

    Args:
        translator: The translator to export: a float32 model or ensemble. Its
            search and number of translations become the defaults. The export
            supports beam sizes up to the search's, or 4.
        path: Folder to create.
        dtype: Dtype of the stored weights: float32; float16, which halves the
            file and is computed in float32; or int8, which is the fastest.
        shortlist: From `make_shortlist`: translations contain only its tokens,
            which is faster with a large vocabulary.

    Returns:
        The folder.

    Raises:
        InputError: If `path` exists, the model is not in float32, or an
            ensemble with a shortlist.
        RuntimeError: If the export gives different results.
    """
    dtypes = {model.dtype_policy.name for model in translator.models}
    problems = [f"dtype={x} (open in float32)" for x in dtypes - {"float32"}]
    if shortlist and len(translator.models) > 1:
        problems.append("an ensemble with a shortlist")
    writing.check_model(translator, "litert", dtype, problems)
    with atomic_folder(path) as folder:
        search = converted(translator.search, BeamSearch)
        largest_beam_size = max(search.beam_size, 4)
        special_ids = translator.engine.special_ids
        # K hypotheses need 2K continuations that are not banned.
        candidates = 2 * largest_beam_size + len(special_ids.banned_ids)
        if search.no_repeat_ngram:  # may ban one token per previous token
            candidates += translator.max_length
        signatures = graph.make_signatures(
            translator.models,
            translator.max_length,
            num_candidates=None if shortlist else candidates,
        )
        content = _convert(translator.models, signatures, dtype)
        (folder / MODEL_FILE).write_bytes(content)
        translator.tokenizer.save_files(folder)
        if shortlist:
            _write_shortlist(folder, shortlist, translator.model, candidates)
        metadata = {
            "tensorflow": tf.__version__,
            "dtype": dtype,
            "search": dataclasses.asdict(search),
            "model_sha256": hashlib.sha256(content).hexdigest(),
            "attention_window": translator.model.config.attention_window,
            "largest_beam_size": largest_beam_size,
            **special_ids._asdict(),
        }
        writing.write_metadata(folder, translator, metadata)
        writing.write_readme(folder, "litert")
        # With a shortlist, translations may differ.
        written = open_translator(folder, shortlist=False)
        writing.check_results(written, translator, "litert", dtype)
    return Path(path)


def _write_shortlist(
    folder: Path, shortlist: Shortlist, model: Transformer, num_candidates: int
) -> None:
    """Writes the ids, and the product with their rows as a model."""
    size, width = model.output_embedding.embeddings.shape
    num_candidates = min(num_candidates, size)
    # At least as many ids as candidates are listed.
    always = np.union1d(shortlist.always, np.arange(num_candidates, dtype="i4"))
    output = {"output": graph.make_listed_output(width, num_candidates)}
    template = flatbuffer.with_placeholders(_convert([], output, "float32"))
    arrays = shortlist._replace(always=always)._asdict()
    arrays |= dict(size=size, template=np.frombuffer(template, np.uint8))
    np.savez_compressed(folder / SHORTLIST_FILE, **arrays)


def _convert(
    models: Sequence[Transformer], signatures: Mapping[str, Any], dtype: str
) -> bytes:
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
        return flatbuffer.finalize_model(converter.convert(), dtype == "int8")
