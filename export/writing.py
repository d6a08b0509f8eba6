"""What all formats share: checks, metadata, and a folder written atomically."""

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from keras import ops

from keras_transformer import __version__
from keras_transformer.inference.translator import Translator
from keras_transformer.support.errors import InputError

PROBES = (
    "I am a student.",
    "",
    "Where is the station, and when does the next train leave?",
)


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yields a temporary folder, which is moved to `path` at the end.

    If the block raises, nothing is left. The temporary folder has the name of
    `path`, whose parents are created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=".partial-", dir=path.parent
    ) as folder:
        partial = Path(folder, path.name)
        partial.mkdir()  # a name that is too long is an error at once
        yield partial
        os.replace(partial, path)


def check_weights(translator: Translator) -> None:
    """Raises InputError if a weight is NaN or infinite."""
    weights = [w for model in translator.models for w in model.weights]
    # Keras accepts the integers of quantized layers, TensorFlow does not.
    invalid = [w.path for w in weights if not ops.all(ops.isfinite(w.value))]
    if invalid:
        raise InputError(
            "The weights of a model to export must be finite. Received: NaN "
            f"or infinity in {len(invalid)} of {len(weights)} weights, the "
            f"first of them {invalid[0]}. Training may have diverged: export "
            "an earlier checkpoint."
        )


def describe(translator: Translator) -> dict[str, Any]:
    """Returns the metadata of every format: values that JSON can hold."""
    return {
        "keras_transformer": __version__,
        "tokenizer_sha256": translator.tokenizer.digest,
        "models": len(translator.models),
        "dtype": translator.model.dtype_policy.name,
        "search": dataclasses.asdict(translator.search),
        "num_translations": translator.num_translations,
        "runs": [run.metadata(file) for run, file in translator.checkpoints],
    }


def refuse_taken(
    kind: str, added: Mapping[str, Any] | None, existing: Collection[str]
) -> None:
    """Raises InputError if a name that the caller adds is a built-in one."""
    taken = sorted(set(added or ()) & set(existing))
    if taken:
        raise InputError(
            f"Additional {kind} must not have the name of a built-in one. "
            f"Received: {', '.join(taken)}"
        )
