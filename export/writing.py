"""What all formats share: checks and metadata."""

import dataclasses
from collections.abc import Collection, Mapping
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from keras import ops

from keras_transformer import __version__
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.inference.translator import Translator
from keras_transformer.litert import METADATA_FILE
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import write_json
from keras_transformer.text import Vocabulary
from keras_transformer.text.lookup_vocabulary import language_token

PROBES = (
    "I am a student.",
    "",
    "Where is the station, and when does the next train leave?",
)


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


def power_of_length(search: BeamSearch) -> float:
    """Returns the exponent for systems that divide by a power of the length.

    Two thirds of the exponent of Wu et al. ranks alike at usual lengths.
    """
    if search.length_penalty == "wu":
        return round(search.alpha * 2 / 3, 2)
    return search.alpha


def language_tokens(vocabulary: Vocabulary) -> list[str]:
    """Returns the pieces that name the language to translate to."""
    return [language_token(x) for x in getattr(vocabulary, "languages", [])]


def describe(translator: Translator) -> dict[str, Any]:
    """Returns the metadata of every format: values that JSON can hold."""
    return {
        "keras_transformer": __version__,
        "tokenizer_sha256": translator.tokenizer.digest,
        "models": len(translator.models),
        "dtype": translator.model.dtype_policy.name,
        "search": dataclasses.asdict(translator.search),
        "num_translations": translator.num_translations,
        "max_length": translator.max_length,
        "runs": [run.metadata(file) for run, file in translator.checkpoints],
    }


def write_about(
    folder: Path, metadata: Mapping[str, Any], template: str, **values: Any
) -> None:
    """Writes the metadata and the README of a folder of `atomic_folder`.

    Args:
        folder: Where `keras_transformer.json` and `README.md` are written.
        metadata: What the former contains: values that JSON can hold.
        template: The file in `templates/` that the latter is made from.
        values: What the names in the template stand for; `name` is that of
            the folder.
    """
    write_json(folder / METADATA_FILE, metadata)
    readme = filled(template, name=folder.name, **values)
    (folder / "README.md").write_text(readme, "utf-8")


def filled(template: str, **values: Any) -> str:
    """Returns a file of `templates/` with values instead of its names."""
    file = files(__package__) / "templates" / template
    return Template(file.read_text("utf-8")).substitute(values)


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
