"""Flags that several commands share, and what was given with them.

Flags that are fields of a dataclass have its types, checks and help.
"""

import argparse
import dataclasses
import types
import typing
from collections.abc import Sequence

from keras_transformer.decoding.search import (
    BeamSearch,
    Sampling,
    Search,
    converted,
)
from keras_transformer.presets import PRESETS
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import ParsingTask

if typing.TYPE_CHECKING:
    from keras_transformer.inference.run import Run
    from keras_transformer.inference.translator import Translator


def add_run(parser: argparse.ArgumentParser) -> None:
    """Adds the folder of a run."""
    parser.add_argument("run", help="folder that `train` wrote")


def add_runs(parser: argparse.ArgumentParser) -> None:
    """Adds the folders of one or more runs."""
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="run",
        help="folder that `train` wrote; the probabilities of several runs "
        "with the same tokenizer are averaged",
    )


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """Adds `--checkpoint`."""
    parser.add_argument(
        "--checkpoint",
        metavar="STEP",
        help="a step, best (by validation score) or last (default: last)",
    )


def add_data(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of a corpus."""
    parser.add_argument(
        "--data",
        nargs="+",
        required=True,
        metavar="PATH",
        help="a folder of {train,valid,test}.LANGUAGE, of TFRecord files or "
        "of {train,valid,test}.mrg, which are trees, "
        "two text files, a .tsv file, tfds:NAME/CONFIG, a folder that "
        "`prepare` wrote, or embedded, which is the bundled corpus",
    )
    parser.add_argument(
        "--source", metavar="LANGUAGE", help="language code, e.g. en"
    )
    parser.add_argument(
        "--target", metavar="LANGUAGE", help="language code, e.g. de"
    )


def add_preset(
    parser: argparse.ArgumentParser, default: str | None, about: str = ""
) -> None:
    """Adds `--preset`; `about` says what a default of None means."""
    parser.add_argument(
        "--preset",
        default=default,
        metavar="NAME",
        help=f"one of {', '.join(PRESETS)} (default: {about or default})",
    )


def add_dtype(parser: argparse.ArgumentParser) -> None:
    """Adds `--dtype`."""
    parser.add_argument(
        "--dtype",
        choices=("float32", "bfloat16", "float16"),
        default="float32",
        help="type of weights and computation; the 16-bit types take half the "
        "space (default: %(default)s)",
    )


def add_search(parser: argparse.ArgumentParser, *names: str) -> None:
    """Adds the flags of the fields of `BeamSearch`, or of some of them."""
    for field in dataclasses.fields(BeamSearch):
        if field.name in names or not names:
            add_field(parser, BeamSearch, field)


def add_sampling(parser: argparse.ArgumentParser) -> None:
    """Adds `--sample` and the flags of what only `Sampling` has."""
    group = parser.add_argument_group("sampling")
    group.add_argument(
        "--sample",
        action="store_true",
        help="draw translations at random, in place of beam search",
    )
    shared = {field.name for field in dataclasses.fields(BeamSearch)}
    for field in dataclasses.fields(Sampling):
        if field.name not in shared:
            add_field(group, Sampling, field)


def add_field(
    group: argparse._ActionsContainer, cls: type, field: dataclasses.Field
) -> None:
    """Adds the flag of a dataclass field; it has no value unless given."""
    flag = "--" + field.name.replace("_", "-")
    default = str(field.default)
    if any(
        field.name in {"vocab_size", *preset.architecture, *preset.recipe}
        for preset in PRESETS.values()
    ):
        default = f"the preset's; base: {default}"
    if cls is BeamSearch:
        of_trees = getattr(ParsingTask.search, field.name)
        if of_trees != field.default:
            default += f"; of trees: {of_trees}"
    text = f"{field.metadata['description']} (default: {default})"
    value_type = _value_type(typing.get_type_hints(cls)[field.name])
    if value_type is bool:
        group.add_argument(
            flag, action="store_true", default=argparse.SUPPRESS, help=text
        )
        return
    group.add_argument(
        flag,
        type=value_type,
        choices=field.metadata["rule"].choices or None,
        default=argparse.SUPPRESS,
        metavar=None if value_type is str else value_type.__name__.upper(),
        help=text,
    )


def given_values(options: argparse.Namespace, cls: type) -> dict:
    """Returns the values of a dataclass that were given on the command line."""
    names = [field.name for field in dataclasses.fields(cls)]
    given = vars(options)
    return {name: given[name] for name in names if name in given}


def open_translator(
    runs: Sequence[str],
    options: argparse.Namespace,
    num_translations: int = 1,
    dtype: str | None = None,
) -> "Translator":
    """Opens the runs with the search that the flags ask for."""
    from keras_transformer.inference.run import Run
    from keras_transformer.inference.translator import Translator

    search = search_of(options, Run.open(runs[0]))
    return Translator.open(
        runs, options.checkpoint, search, num_translations, dtype
    )


def search_of(options: argparse.Namespace, run: "Run") -> Search:
    """Returns the settings of the search.

    What was not given is the default of the run's task.

    Raises:
        InputError: If values are invalid, or of the other kind of search.
    """
    default = run.task.search
    if "sample" not in options:  # the command has beam search only
        given = given_values(options, BeamSearch)
        return dataclasses.replace(default, **given)
    kind, other, problem = (
        (Sampling, BeamSearch, "Options of beam search exclude --sample.")
        if options.sample
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


def language_pair(
    options: argparse.Namespace, run: "Run"
) -> tuple[str | None, str | None]:
    """Returns the languages to evaluate on: those that the run translates.

    Raises:
        InputError: If others were given on the command line.
    """
    trained = run.recipe.get("source"), run.recipe.get("target")
    given = options.source or trained[0], options.target or trained[1]
    if None not in trained and given != trained:
        raise InputError(
            f"{run.path} translates from {trained[0]} to {trained[1]}. "
            f"Received: source={given[0]}, target={given[1]}"
        )
    return given


def _value_type(annotation: typing.Any) -> type:
    """Returns `int` for `int | None`, and any other type itself."""
    if isinstance(annotation, types.UnionType):
        return typing.get_args(annotation)[0]
    return annotation
