"""One way to write every format: check, write, describe, verify, move."""

import dataclasses
import json
import os
from collections.abc import Callable, Collection, Mapping
from importlib import metadata as installed
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from keras_transformer import __version__
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.inference.translator import Translator
from keras_transformer.litert import METADATA_FILE
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_folder, check_new, write_json
from keras_transformer.support.progress import progress_bar
from keras_transformer.text import Vocabulary
from keras_transformer.text.tags import language_token
from keras_transformer.weights import not_finite


def write_export(
    translator: Translator,
    path: str | os.PathLike,
    write: Callable[[Path], Mapping[str, Any]],
    verify: Callable[[Path], None],
    described: Mapping[str, Any],
    metadata: Mapping[str, Any] | None,
    readme: tuple[str, Mapping[str, Any]] | None = None,
    metadata_file: str = METADATA_FILE,
) -> Path:
    """Writes a translator into a new folder, if it is the same model there.

    `write` writes the files of a format and returns metadata that are known
    only then; the others are `described`. The `metadata` of the caller are
    added. `verify` raises RuntimeError unless it was the same model. The readme
    is a file of `templates/`, and what its names stand for, besides the `name`
    of the folder and the `origin` of the model.
    """
    path = Path(path)
    if not translator.task.targets_are_text:
        raise InputError(
            "A model to export must translate: parsers run from run folders. "
            f"Received: a model for {translator.task.name}"
        )
    check_new(path)
    translator.tokenizer.check_languages()
    _check_weights(translator)
    described = {**_describe(translator), **described}
    check_names("metadata", metadata, described)
    with (
        atomic_folder(path) as folder,
        progress_bar(total=2, unit="stage") as progress,
    ):
        progress.set_description("writing")
        described |= {**write(folder), **(metadata or {})}
        (folder / metadata_file).parent.mkdir(exist_ok=True)
        write_json(folder / metadata_file, described)
        if readme:
            file, values = readme
            origin = _origin(described)
            text = fill_template(file, name=path.name, origin=origin, **values)
            (folder / "README.md").write_text(text, "utf-8")
        progress.update()
        progress.set_description("verifying")
        verify(folder)
        progress.update()
    return path


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


def check_names(
    names_of: str, added: Mapping[str, Any] | None, existing: Collection[str]
) -> None:
    """Raises InputError if a name that the caller adds is a built-in one."""
    taken = sorted(set(added or ()) & set(existing))
    if taken:
        raise InputError(
            f"Additional {names_of} must not have the name of a built-in one. "
            f"Received: {', '.join(taken)}"
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


# === READMEs ===


def fill_template(template: str, **values: Any) -> str:
    """Returns a file of `templates/` with values instead of its names."""
    file = files("keras_transformer.export") / "templates" / template
    return Template(file.read_text("utf-8")).substitute(values)


def _origin(metadata: Mapping[str, Any]) -> str:
    """Returns the sentence that says what an export was made from."""
    runs = [f"{run['run']} ({run['checkpoint']})" for run in metadata["runs"]]
    from_runs = f" from {', '.join(runs)}" if runs else ""
    return f"Exported by keras-transformer {__version__}{from_runs}."


def installed_from() -> str:
    """Returns the address of the sources that this package is from."""
    try:
        package = installed.distribution("keras-transformer-nmt")
        origin = package.read_text("direct_url.json")
    except installed.PackageNotFoundError:  # a folder on Python's path
        origin = None
    if origin is not None:
        return json.loads(origin)["url"]
    return Path(__file__).resolve().parents[1].as_uri()


def power_of_length(search: BeamSearch) -> float:
    """Returns the exponent for systems that divide by a power of the length.

    Two thirds of the exponent of Wu et al. ranks alike at usual lengths.
    """
    if search.length_penalty == "wu":
        return round(search.alpha * 2 / 3, 2)
    return search.alpha


def language_tokens(vocabulary: Vocabulary) -> list[str]:
    """Returns the pieces that name the language to translate to."""
    return [language_token(language) for language in vocabulary.languages]
