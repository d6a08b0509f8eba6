"""One way to write every format: write, open what was written, compare."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_transformer import __version__
from keras_transformer.export.dtypes import DTYPES, SYSTEMS
from keras_transformer.export.verification import ScoreTexts, check_scores
from keras_transformer.inference.translator import Translator
from keras_transformer.litert import METADATA_FILE
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import check_values, one_of
from keras_transformer.support.files import atomic_folder, write_json
from keras_transformer.support.progress import progress_bar
from keras_transformer.weights import not_finite

_README = """# {system}

A model for {system}, exported by keras-transformer {version}. The file
`docs/{format}.md` in the source code of keras-transformer describes how to use
it. `keras_transformer.json` contains the settings of its search, and what it
was made from.
"""
_MODEL_CARD = """---
library_name: transformers
pipeline_tag: translation
tags:
- marian
- keras-transformer
---

"""


def write_export(
    translator: Translator,
    path: str | os.PathLike,
    format: str,
    dtype: str,
    write: Callable[[Path], Mapping[str, Any]],
    open_written: Callable[[Path], ScoreTexts],
    metadata: Mapping[str, Any] | None,
) -> Path:
    """Writes a translator into a new folder, if it is the same model there.

    `write` writes the files of a format into a folder, and returns metadata,
    to which those of the caller are added. `open_written` opens the folder,
    and returns its counterpart of `Translator.score`.
    """
    check_values(one_of(*DTYPES[format]), dtype=dtype)
    if not translator.task.targets_are_text:
        raise InputError(
            "A model to export must translate: parsers run from run folders. "
            f"Received: a model for {translator.task.name}"
        )
    translator.tokenizer.check_languages()
    _check_weights(translator)
    with (
        atomic_folder(path) as folder,
        progress_bar(total=2, unit="stage") as progress,
    ):
        progress.set_description("writing")
        described = {**_describe(translator), **write(folder)}
        described = dict(**described, **(metadata or {}))
        file = folder / METADATA_FILE
        if format == "saved-model":
            file = folder / "assets.extra" / METADATA_FILE
            file.parent.mkdir(exist_ok=True)
        else:
            (folder / "README.md").write_text(_readme(format), "utf-8")
        write_json(file, described)
        progress.update()
        progress.set_description("verifying")
        check_scores(open_written(folder), translator, format, dtype)
        progress.update()
    return Path(path)


def single_model_problems(translator: Translator) -> Iterator[str]:
    """Yields what a system lacks that runs one model of the paper."""
    config = translator.model.config
    if len(translator.models) > 1:
        yield f"{len(translator.models)} models, an ensemble"
    if config.attention_window is not None:
        yield f"attention_window={config.attention_window}"


def check_problems(format: str, problems: Iterable[str]) -> None:
    """Raises InputError if a format cannot express a model."""
    received = ", ".join(problems)
    if received:
        raise InputError(
            f"{SYSTEMS[format]} cannot compute this model. Received: "
            f"{received}. Export a SavedModel instead."
        )


def _check_weights(translator: Translator) -> None:
    """Raises InputError if a weight is NaN or infinite."""
    weights = [w for model in translator.models for w in model.weights]
    invalid = not_finite(weights)
    if invalid:
        raise InputError(
            "The weights of a model to export must be finite. Received: NaN "
            f"or infinity in {len(invalid)} of {len(weights)} weights, the "
            f"first of them {invalid[0]}. Training may have diverged: export "
            "an earlier checkpoint."
        )


def _describe(translator: Translator) -> dict[str, Any]:
    """Returns the metadata of every format: values that JSON can hold."""
    return {
        "keras_transformer": __version__,
        "tokenizer_sha256": translator.tokenizer.digest,
        "models": len(translator.models),
        "dtype": translator.dtype,
        "search": dataclasses.asdict(translator.search),
        "num_translations": translator.num_translations,
        "max_length": translator.max_length,
        "runs": [run.metadata(file) for run, file in translator.checkpoints],
    }


def _readme(format: str) -> str:
    front_matter = _MODEL_CARD if format == "huggingface" else ""
    return front_matter + _README.format(
        system=SYSTEMS[format], version=__version__, format=format
    )
