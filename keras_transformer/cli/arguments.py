"""What was given on the command line: checked, and opened.

`options.py` has the flags. What can be found wrong without TensorFlow is found
before it is imported, which takes seconds.
"""

import argparse
import dataclasses
import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras_transformer as kt
from keras_transformer import litert
from keras_transformer.decoding.settings import (
    BeamSearch,
    Sampling,
    Search,
    converted,
)
from keras_transformer.inference import saved_model
from keras_transformer.inference.base import BaseTranslator
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import (
    check_creatable,
    check_new,
    check_output,
    read_json,
)
from keras_transformer.support.startup import (
    import_tensorflow_quietly,
)
from keras_transformer.tasks import ParsingTask, find_task

if TYPE_CHECKING:
    from keras_transformer.train.data.corpus import Corpus


def check_given(options: argparse.Namespace) -> None:
    """Raises InputError for what can be found wrong without TensorFlow."""
    given = vars(options)
    runs = [*given.get("runs", ()), given.get("run"), given.get("init_from")]
    takes_export = given.get("takes_export", False)
    for path in filter(None, runs):
        if "input" in given and os.path.isfile(path):
            raise InputError(
                f"A run or an export is a folder. Received: {path}, which is a "
                "file; --input names what to read"
            )
        check_run(path, given.get("checkpoint"), takes_export)
    if given_values(options, BeamSearch) or "sample" in given:
        search = search_of(options, BeamSearch())
        if "beam_size" in given and "n_best" in given:
            search.with_num_translations(_n_best(options))
    if "-" in (*(given.get("input") or ()), given.get("output")):
        raise InputError(
            "A standard stream has no name. Leave out --input to read standard "
            "input, and --output to write standard output. Received: -"
        )
    for path in given.get("input") or ():
        if not os.path.exists(path) or os.path.isdir(path):
            problem = "a folder" if os.path.isdir(path) else "nothing there"
            raise InputError(
                f"The --input must be a file. Received: {path}, {problem}"
            )
    if given.get("output") is not None:
        check_creatable(given["output"])
        if options.command.suffixes:
            check_output(given["output"], options.command.suffixes)
        if "input" in given:
            check_new(given["output"])
    if given.get("metric"):
        about = _recorded(options.runs[0])
        target = options.target or about.get("target")
        task = find_task(about.get("task", "translation"))
        task.check_metrics(target, options.metric)
    if "data" in given:
        data, source, target = _corpus_of(options)
        if not data[0].startswith("tfds:"):  # which may be downloaded
            corpus = kt.train.open_corpus(data, source, target)
            if "split" in given and given["split"] not in corpus.splits:
                raise InputError(
                    f"{corpus.name} has the splits {', '.join(corpus.splits)}. "
                    f"Received: --split {given['split']}. Choose another "
                    "--split or other --data."
                )


def check_run(path: str, checkpoint: str | None, takes_export: bool) -> None:
    """Raises InputError unless a folder may be a run, or an export."""
    folder = Path(path)
    if litert.is_export(folder) or saved_model.is_export(folder):
        if takes_export:
            return
        raise InputError(
            f"The command needs a run. Received: {path}, an export, which "
            "translate, evaluate, score and serve take"
        )
    if not (folder / "config.json").is_file():
        problem = "has none" if folder.is_dir() else "is not there"
        if folder.is_file():
            problem = "is a file"
        raise InputError(
            "A run folder, which `keras-transformer train`, `average` and "
            "`import` write, has a config.json, a SavedModel a "
            "saved_model.pb, and a folder exported for LiteRT a "
            f"keras_transformer.json. Received: {path}, which {problem}"
        )
    files = folder.glob("checkpoints/*.weights.h5")
    names = sorted(file.name.partition(".")[0] for file in files)
    # As `Run.find_checkpoint`, which also knows what is wrong without any.
    steps = [name.removeprefix("step-").lstrip("0") or "0" for name in names]
    steps.sort(key=lambda step: int(step) if step.isdecimal() else math.inf)
    if names and checkpoint not in (None, "last", *steps):
        raise InputError(
            f"{path} has the checkpoints {', '.join(steps)}, last. Received: "
            f"--checkpoint {checkpoint}"
        )


def is_run(path: str) -> bool:
    """Returns whether a folder is a run: others have a config.json, too."""
    file = Path(path, "config.json")
    values = read_json(file) if file.is_file() else None
    return isinstance(values, dict) and "recipe" in values


def with_flags(message: str, options: argparse.Namespace) -> str:
    """Returns a message of Python in the words of the command line.

    `beam_size=0` becomes `--beam-size 0` if that is a flag of the command.
    """
    parser = argparse.ArgumentParser(add_help=False)
    options.command.add_flags(parser)
    flags = {
        action.dest: action.option_strings[-1]
        for action in parser._actions
        if action.option_strings
    }
    if "n_best" in flags:
        flags["num_translations"] = flags["n_best"]

    def value(match: re.Match) -> str:
        name, text = match.groups()
        # Another value is not that of the flag, such as a file's `format`.
        if str(getattr(options, name, text.strip("'"))) != text.strip("'"):
            return match[0]
        return (
            f"no {flags[name]}" if text == "None" else f"{flags[name]} {text}"
        )

    names = "|".join(flags)
    message = message.replace(" or None. Received: ", ". Received: ")
    message = re.sub(
        rf"(?<![\w/.=-])({names})=('[^']*'|[^\s,;]*[^\s,;.])", value, message
    )
    # A word with "_" is a name wherever it stands, others before a verb.
    words = "|".join(["_", *(name for name in flags if "_" in name)])
    return re.sub(
        rf"(?:^|(?<=\. ))(?:{names})(?= (?:must|needs) )"
        rf"|(?<![\w/.=-])(?:{words})(?![\w/=-]|\.\w)",
        lambda match: flags.get(match[0], match[0]),
        message,
        flags=re.MULTILINE,
    )


def given_values(options: argparse.Namespace, cls: type) -> dict:
    """Returns the values of a dataclass that were given on the command line."""
    names = [field.name for field in dataclasses.fields(cls)]
    given = vars(options)
    return {name: given[name] for name in names if name in given}


def open_translator(options: argparse.Namespace) -> BaseTranslator:
    """Opens the runs or the export, with the search of flags."""
    if given_litert(options):
        return _open_litert(options)
    if given_export(options):
        return _open_saved_model(options)
    return open_runs(options)


def given_litert(options: argparse.Namespace) -> bool:
    """Returns whether an export for LiteRT is given."""
    return any(map(litert.is_export, options.runs))


def given_export(options: argparse.Namespace) -> bool:
    """Returns whether an export is given, for LiteRT or a SavedModel."""
    return given_litert(options) or any(
        map(saved_model.is_export, options.runs)
    )


def _check_export(options: argparse.Namespace, *searches: type) -> None:
    """Raises InputError for flags that an export cannot follow."""
    names = ("checkpoint", "target_language", "dtype", "sample")
    refused = [name for name in names if getattr(options, name, None)]
    for search in searches:
        refused += given_values(options, search)
    if refused or len(options.runs) > 1:
        flags = (f"--{name.replace('_', '-')}" for name in refused)
        raise InputError(
            "An export is used alone, as it was exported: with its checkpoint, "
            "language, type and kind of search. Leave out other flags, or use "
            "the run; `export RUN1 RUN2` makes one of several. Received: "
            + " ".join([*options.runs, *dict.fromkeys(flags)])
        )


def _open_litert(options: argparse.Namespace) -> "litert.LiteRTTranslator":
    """Does what `open_translator` does, for an export for LiteRT."""
    _check_export(options)
    (path,) = options.runs
    default = litert.default_search(litert.read_metadata(path))
    search = search_of(options, default)
    return litert.LiteRTTranslator.open(path, search, _n_best(options))


def _open_saved_model(
    options: argparse.Namespace,
) -> saved_model.SavedModelTranslator:
    """Does what `open_translator` does, for a SavedModel."""
    _check_export(options, BeamSearch, Sampling)
    import_tensorflow_quietly()
    (path,) = options.runs
    return saved_model.SavedModelTranslator.open(path, _n_best(options))


def open_runs(
    options: argparse.Namespace, dtype: str | None = None
) -> "kt.Translator":
    """Does what `open_translator` does, for runs.

    Their dtype is that of --dtype, unless it is given here.
    """
    import_tensorflow_quietly()
    runs = [kt.Run.open(path, options.target_language) for path in options.runs]
    task = runs[0].task
    if not task.targets_are_text and getattr(options, "tokenized", False):
        task = ParsingTask(split_words=False)
    search = search_of(options, runs[0].default_search)
    return kt.Translator.open(
        runs,
        options.checkpoint,
        search,
        _n_best(options),
        dtype or options.dtype or "float32",
        task,
    )


def _n_best(options: argparse.Namespace) -> int:
    return getattr(options, "n_best", None) or 1


def search_of(options: argparse.Namespace, default: BeamSearch) -> Search:
    """Returns the search that was given, else that of the default."""
    kind, other, problem = (
        (Sampling, BeamSearch, "Options of beam search exclude --sample.")
        if getattr(options, "sample", False)
        else (BeamSearch, Sampling, "Options of sampling need --sample.")
    )
    values = given_values(options, kind)
    refused = [
        f"--{name.replace('_', '-')} {value}"
        for name, value in given_values(options, other).items()
        if name not in values
    ]
    if refused:
        raise InputError(f"{problem} Received: {' '.join(refused)}")
    return dataclasses.replace(converted(default, kind), **values)


def open_corpus(options: argparse.Namespace) -> "Corpus":
    """Opens the data, or what the (first) run was trained on.

    Its languages are those that the run translates, by its recipe.
    """
    return kt.train.open_corpus(*_corpus_of(options))


def _corpus_of(
    options: argparse.Namespace,
) -> tuple[list[str], str | None, str | None]:
    """Returns what `open_corpus` opens; refuses other languages."""
    given = options.data, options.source, options.target
    runs = [*vars(options).get("runs", ()), vars(options).get("run")]
    if (run := runs[0]) is None:  # for a command that makes one
        return given
    recipe = _recorded(run).get("recipe")
    if not isinstance(recipe, dict):
        recipe = {}  # `Run.open` refuses it
    trained = recipe.get("source"), recipe.get("target")
    languages = given[1] or trained[0], given[2] or trained[1]
    # Other systems may have other codes for the same languages.
    are_ours = None not in trained and "imported_from" not in recipe
    if are_ours and languages != trained:
        raise InputError(
            f"{run} translates from {trained[0]} to {trained[1]}. "
            f"Received: --source {languages[0]}, --target {languages[1]}"
        )
    return options.data or _recorded_data(run, recipe.get("data")), *languages


def _recorded(path: str) -> dict[str, Any]:
    """Returns what is recorded of a run, or of the (first) one of an export."""
    folder = Path(path)
    if litert.is_export(folder):
        metadata = litert.read_metadata(folder)
    elif saved_model.is_export(folder):
        metadata = saved_model.read_metadata(folder)
    else:
        metadata = {"runs": [read_json(folder / "config.json")]}
    found = next(iter(metadata.get("runs", ())), {})
    return found if isinstance(found, dict) else {}  # likewise


def _recorded_data(run: str, name: str | None) -> list[str]:
    """Returns the data that a run has recorded as one name."""
    if name is None:
        raise InputError(
            f"{run} does not say what it was trained on. Name the data with "
            "--data."
        )
    if name == "embedded" or name.startswith("tfds:") or os.path.exists(name):
        return [name]
    for space in re.finditer(" ", name):  # between two files
        pair = [name[: space.start()], name[space.end() :]]
        if all(map(os.path.isfile, pair)):
            return pair
    raise InputError(
        f"The data that {run} was trained on are not there. Name them with "
        f"--data. Received: {name}"
    )
