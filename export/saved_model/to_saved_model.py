"""Writes a `Translator` as a SavedModel and verifies it in a new process."""

import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.export.saved_model.exported_signatures import (
    SIGNATURES,
    Signatures,
)
from keras_transformer.export.saved_model.serving_operations import (
    oldest_serving,
)
from keras_transformer.export.saved_model.translate_saved_model import (
    IMPORT_FAILED,
)
from keras_transformer.export.writing import (
    PROBES,
    check_weights,
    describe,
    refuse_taken,
)
from keras_transformer.inference.texts import Translation
from keras_transformer.inference.translator import Translator
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_folder, check_new, write_json
from keras_transformer.text import read_texts

METADATA_FILE = "assets.extra/keras_transformer.json"


def save(
    translator: Translator,
    path: str | os.PathLike,
    probes: Iterable[str] = PROBES,
    include: Collection[str] | None = None,
    signatures: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """Writes a SavedModel that takes strings and returns translations.

    Its signature `serving_default` takes `text`, a string tensor `[B]`, and
    returns `translations` `[B, n]`, `scores` float32 `[B, n]`, best first,
    and booleans `[B]`: `source_truncated` and `at_length_limit`.
    `SIGNATURES` of `exported_signatures.py` lists the others. The model needs
    TensorFlow and tensorflow-text only: TensorFlow Serving has both, and in
    Python `import tensorflow_text` comes before loading.

    The model is written to a temporary folder, loaded in a new process, and
    moved to `path` only if its translations and scores of the probes are
    those of `translator`.

    Args:
        translator: What to save, with its search and number of translations.
        path: Folder to create. TensorFlow Serving expects its name to be a
            version number, as in `models/en-de/1`.
        probes: Texts to verify the model with.
        include: Names of the signatures to write; `serving_default` is
            needed. Fewer make the model faster to load. Default: all that
            the task has.
        signatures: Further signatures by name: instances of `tf.function`
            with an input signature.
        metadata: What to add to `assets.extra/keras_transformer.json`, which
            has versions, the tokenizer's SHA-256, the dtype, the search, the
            names of the signatures, the oldest release of TensorFlow Serving
            that has all operations, and the runs that `Translator.open` has
            loaded with their results: values that JSON can hold.

    Returns:
        The folder.

    Raises:
        InputError: If `path` exists, the model has weights or scores that are
            not finite, names of signatures or metadata are unknown or taken,
            or the graph has an operation that TensorFlow Serving lacks.
        RuntimeError: If the new process fails, or its results differ.
    """
    path = Path(path)
    check_new(path)
    refuse_taken("signatures", signatures, SIGNATURES)
    check_weights(translator)
    module = Signatures(translator)
    functions = module.make(include or module.names) | dict(signatures or {})
    about = {
        **describe(translator),
        "tensorflow": tf.__version__,
        "signatures": sorted(functions),
        "oldest_tensorflow_serving": None,  # known when it is written
    }
    refuse_taken("metadata", metadata, about)
    probes, _ = read_texts(probes, "probes")
    with atomic_folder(path) as partial:
        expected = [_translate(translator, probe) for probe in probes]
        # The attributes of the module are bare variables and operations: the
        # Keras model itself would be written twice.
        module.functions = functions
        tf.saved_model.save(module, partial, signatures=functions)
        about["oldest_tensorflow_serving"] = oldest_serving(partial)
        (partial / METADATA_FILE).parent.mkdir(exist_ok=True)
        write_json(partial / METADATA_FILE, {**about, **(metadata or {})})
        _compare(translate_in_subprocess(partial, probes), expected, probes)
    return path


def translate_in_subprocess(
    path: str | os.PathLike, texts: Iterable[str]
) -> list[Translation]:
    """Translates with a SavedModel in a process without `keras_transformer`.

    Args:
        path: Folder of the SavedModel.
        texts: Texts, as for `Translator.translate`.

    Returns:
        One `Translation` per text.

    Raises:
        RuntimeError: If the process fails. The message holds its error.
    """
    texts, _ = read_texts(texts)
    script = Path(__file__).with_name("translate_saved_model.py")
    # -I keeps the folder of the script out of sys.path. It also ignores
    # PYTHONPATH and the user's packages, where TensorFlow may be installed.
    process = subprocess.run(
        [sys.executable, "-I", str(script), str(path)],
        input=json.dumps({"sys_path": sys.path, "texts": texts}, default=str),
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    if process.returncode:
        problem = (
            "The saved model was not verified: the process that loads it "
            "cannot import TensorFlow and tensorflow-text. Check that "
            f"`{sys.executable}` can import both."
            if process.returncode == IMPORT_FAILED
            else f"The saved model {path} must translate in a new process. "
            f"Received: exit code {process.returncode}"
        )
        raise RuntimeError(f"{problem}\n{process.stderr[-4000:]}")
    rows = json.loads(process.stdout.splitlines()[-1])
    return [Translation(*row) for row in rows]


def _translate(translator: Translator, text: str) -> Translation:
    # Alone, as in the new process: in 16 bits, scores depend on the batch.
    found = translator.translate(text)
    if not np.isfinite(found.scores[0]):
        raise InputError(
            "The score of a translation must be finite. Received: "
            f"score={found.scores[0]} for {text!r}. Training may have "
            "diverged: export an earlier checkpoint."
        )
    return found


def _compare(
    saved: Sequence[Translation],
    expected: Sequence[Translation],
    texts: Sequence[str],
) -> None:
    """Raises RuntimeError unless translations and scores are the same."""
    for text, theirs, ours in zip(texts, saved, expected, strict=True):
        # Scores that the search did not fill are -inf in both.
        same = theirs.texts == ours.texts and np.allclose(
            theirs.scores, ours.scores, rtol=1e-4, atol=1e-4
        )
        if not same:
            raise RuntimeError(
                f"The saved model must translate {text!r} as the model does. "
                f"Expected: {ours}. Received: {theirs}"
            )
