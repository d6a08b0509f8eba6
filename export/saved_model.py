"""Writes a `Translator` as a SavedModel, and proves that it works alone."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_transformer.errors import InputError
from keras_transformer.translator import Translation, Translator

PROBES = (
    "I am a student.",
    "",
    "Where is the station, and when does the next train leave?",
)


def save(
    translator: Translator,
    path: str | os.PathLike,
    probes: Sequence[str] = PROBES,
) -> Path:
    """Writes a SavedModel that translates text without any code of ours.

    Its signature `serving_default` takes `text`, a string tensor `[batch]`,
    and returns `translations` `[batch, n]`, `scores` float32 `[batch, n]`,
    best first, and `truncated` bool `[batch]`. Loading it in Python needs
    `import tensorflow_text` first; TensorFlow Serving has those ops.

    What was written is loaded in a fresh process, which must translate the
    probes as `translator` does; only then does it take its place at `path`.

    Args:
        translator: What to save, with its search and its n.
        path: Folder to create. TensorFlow Serving expects it to be named
            with a version number, such as `models/en-de/1`.
        probes: Texts to compare.

    Returns:
        The folder.

    Raises:
        InputError: If `path` exists.
        RuntimeError: If the saved model disagrees with `translator`.
    """
    path = Path(path)
    if path.exists():
        raise InputError(
            f"{path} exists and is not overwritten. Choose another folder, "
            "for TensorFlow Serving the next version number."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        _write(translator, partial)
        _compare(translate_alone(partial, probes), translator, probes)
        os.replace(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return path


def translate_alone(
    path: str | os.PathLike, texts: Sequence[str]
) -> list[Translation]:
    """Translates with a SavedModel in a process that has no code of ours.

    Args:
        path: The SavedModel's folder.
        texts: Any number of sentences.

    Raises:
        RuntimeError: If the process fails, with its error.
    """
    script = Path(__file__).with_name("translate_alone.py")
    process = subprocess.run(
        [sys.executable, "-I", str(script), str(path)],
        input=json.dumps(list(texts)),
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    if process.returncode:
        raise RuntimeError(
            "The saved model does not load in a fresh process:\n"
            f"{process.stderr[-4000:]}"
        )
    rows = json.loads(process.stdout.splitlines()[-1])
    return [Translation(*row) for row in rows]


def _write(translator: Translator, path: Path) -> None:
    module = tf.Module()
    # Bare variables and ops: the Keras model itself would be written twice.
    module.weights = [weight.value for weight in translator.model.weights]
    module.tokenizer = translator.tokenizer.ops
    module.translate = translator.make_function()
    tf.saved_model.save(
        module, path, signatures={"serving_default": module.translate}
    )


def _compare(
    saved: Sequence[Translation], translator: Translator, texts: Sequence[str]
) -> None:
    """Raises RuntimeError unless translations and scores are the same."""
    for text, ours, theirs in zip(
        texts, translator.translate(texts), saved, strict=True
    ):
        same = ours.texts == theirs.texts and np.allclose(
            ours.scores, theirs.scores, rtol=1e-4, atol=1e-4
        )
        if not same:
            raise RuntimeError(
                f"The saved model translates {text!r} otherwise than the "
                f"model. Expected: {ours}. Received: {theirs}"
            )
