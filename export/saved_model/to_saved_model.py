"""Writes a `Translator` as a SavedModel and verifies it in a new process."""

import contextlib
import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_transformer.export.saved_model import (
    exported_signatures,
    serving_operations,
    translate_saved_model,
)
from keras_transformer.export.verification import PROBES, check_translations
from keras_transformer.export.writing import check_names, write_export
from keras_transformer.inference.records import Translation
from keras_transformer.inference.translator import Translator
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

    Before the model is moved to `path`, it is loaded in a new process: its
    translations and scores of the probes must be those of `translator`.

    Args:
        translator: What to save, with its search and number of translations.
        path: Folder to create. TensorFlow Serving expects its name to be a
            version number, as in `models/en-de/1`.
        probes: Texts to verify the model with.
        include: Names of the signatures to write; `serving_default` is
            needed. Fewer make the model faster to load. Default: all.
        signatures: Further signatures by name: instances of `tf.function`
            with an input signature.
        metadata: What to add to `assets.extra/keras_transformer.json`, which
            has versions, the tokenizer's SHA-256, the dtype, the search, the
            languages that a source may ask for, the names of the signatures,
            the oldest release of TensorFlow Serving that has all operations,
            and the runs that `Translator.open` has loaded with their results:
            values that JSON can hold.

    Returns:
        The folder.

    Raises:
        InputError: If `path` exists, the model has weights or scores that are
            not finite, names of signatures or metadata are unknown or taken,
            or the graph has an operation that TensorFlow Serving lacks.
        RuntimeError: If the new process fails, or its results differ.
    """
    check_names("signatures", signatures, exported_signatures.SIGNATURES)
    texts, _ = read_texts(probes, "probes")
    module = exported_signatures.Signatures(translator)
    names = include or exported_signatures.SIGNATURES
    functions = module.make(names) | dict(signatures or {})
    # The attributes of the module are bare variables and operations: the
    # Keras model itself would be written twice.
    module.functions = functions
    described = {
        "tensorflow": tf.__version__,
        "signatures": sorted(functions),
        "languages": list(translator.tokenizer.languages),
        "oldest_tensorflow_serving": None,  # until it is written
    }

    def write(folder: Path) -> dict[str, Any]:
        tf.saved_model.save(module, folder, signatures=functions)
        oldest = serving_operations.oldest_serving(folder)
        return {"oldest_tensorflow_serving": oldest}

    with process_that_translates() as translate:

        def verify(folder: Path) -> None:
            check_translations(translate(folder, texts), translator, texts)

        return write_export(
            translator,
            path,
            write,
            verify,
            described,
            metadata,
            metadata_file=METADATA_FILE,
        )


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
    with process_that_translates() as translate:
        return translate(path, texts)


@contextlib.contextmanager
def process_that_translates() -> Iterator[Callable]:
    """Starts a process and yields what `translate_in_subprocess` does with it.

    The process imports TensorFlow meanwhile. It translates once.
    """
    script = Path(__file__).with_name("translate_saved_model.py")
    with subprocess.Popen(
        # -I keeps the folder of the script out of sys.path. It also ignores
        # PYTHONPATH and the user's packages, where TensorFlow may be installed.
        [sys.executable, "-I", str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    ) as process:
        try:
            print(json.dumps(sys.path, default=str), file=process.stdin)
            process.stdin.flush()
            yield functools.partial(_translate, process)
        finally:
            process.kill()


def _translate(
    process: subprocess.Popen, path: str | os.PathLike, texts: list[str]
) -> list[Translation]:
    request = json.dumps({"path": str(path), "texts": texts})
    output, errors = process.communicate(request)
    if process.returncode:
        problem = (
            "The saved model was not verified: the process that loads it "
            "cannot import TensorFlow and tensorflow-text. Check that "
            f"`{sys.executable}` can import both."
            if process.returncode == translate_saved_model.IMPORT_FAILED
            else f"The saved model {path} must translate in a new process. "
            f"Received: exit code {process.returncode}"
        )
        raise RuntimeError(f"{problem}\n{errors[-4000:]}")
    return [Translation(*row) for row in json.loads(output.splitlines()[-1])]
