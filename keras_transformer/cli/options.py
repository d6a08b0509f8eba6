"""Flags that several commands share, and what was given with them."""

import argparse
import dataclasses
import types
import typing
from collections.abc import Callable

from keras_transformer.decoding.search import (
    BeamSearch,
    Sampling,
    Search,
    converted,
)
from keras_transformer.presets import PRESETS
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import POSITIVE_INTEGER, SEED
from keras_transformer.tasks import ParsingTask, Task

if typing.TYPE_CHECKING:
    from keras_transformer.inference.run import Run
    from keras_transformer.inference.translator import Translator


def add_run(parser: argparse.ArgumentParser) -> None:
    """Adds the folder of a run."""
    parser.add_argument("run", help="folder that `train` wrote")


def add_model(parser: argparse.ArgumentParser, several: bool = True) -> None:
    """Adds the folder of a run or of several, `--checkpoint` and `--dtype`."""
    text = "folder that `train` wrote"
    if several:
        text += (
            "; the probabilities of several runs with the same tokenizer are "
            "averaged"
        )
    nargs = "+" if several else 1
    parser.add_argument("runs", nargs=nargs, metavar="run", help=text)
    parser.add_argument(
        "--checkpoint",
        metavar="STEP",
        help="a step, best (by validation score) or last (default: last)",
    )
    parser.add_argument(
        "--dtype",
        choices=("float32", "bfloat16", "float16"),
        default="float32",
        help="type of weights and computation; the 16-bit types take half the "
        "space (default: %(default)s)",
    )


def add_data(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of a corpus."""
    parser.add_argument(
        "--data",
        nargs="+",
        required=True,
        metavar="PATH",
        help="one of: a folder of {train,valid,test}.LANGUAGE, of TFRecord "
        "files or, for parsing, of {train,valid,test}.mrg; two text files; a "
        ".tsv file; tfds:NAME/CONFIG; a folder that `prepare` wrote; embedded "
        "(the bundled corpus)",
    )
    for name, example in (("source", "en"), ("target", "de")):
        parser.add_argument(
            f"--{name}",
            metavar="LANGUAGE",
            help=f"language code of the {name}, e.g. {example}",
        )


def add_split(parser: argparse.ArgumentParser, default: str, text: str) -> None:
    """Adds the flag `--split`."""
    text += " (default: %(default)s)"
    parser.add_argument("--split", default=default, help=text)


def add_output(parser: argparse.ArgumentParser, text: str) -> None:
    """Adds the flag `--output`, which is required."""
    parser.add_argument("--output", required=True, metavar="PATH", help=text)


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


def integer(text: str) -> int:
    """Converts the value of a flag; a larger one would not fit a tensor."""
    value = int(text)
    if abs(value) >= 2**31:
        raise argparse.ArgumentTypeError("must be below 2^31")
    return value


def positive_integer(text: str) -> int:
    """Converts the value of a flag."""
    if not text.isdecimal() or integer(text) < 1:
        raise argparse.ArgumentTypeError(
            f"must be {POSITIVE_INTEGER.expected}. Received: {text}"
        )
    return int(text)


def add_integer(
    parser: argparse.ArgumentParser,
    flag: str,
    default: int | None,
    text: str,
    type: Callable[[str], int] = integer,
) -> None:
    """Adds a flag with an integer; `None` is explained in the text."""
    if default is not None:
        text += " (default: %(default)s)"
    parser.add_argument(
        flag, type=type, default=default, metavar="N", help=text
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
    value_type = typing.get_type_hints(cls)[field.name]
    if isinstance(value_type, types.UnionType):  # such as `int | None`
        value_type = typing.get_args(value_type)[0]
    keywords: dict[str, typing.Any] = dict(
        default=argparse.SUPPRESS,
        help=f"{field.metadata['description']} (default: {default})",
    )
    if value_type is bool:
        keywords.update(action="store_true")
    else:
        rule = field.metadata["rule"]
        keywords.update(
            type=integer if value_type is int and rule != SEED else value_type,
            choices=rule.choices or None,
            metavar=None if value_type is str else value_type.__name__.upper(),
        )
    group.add_argument("--" + field.name.replace("_", "-"), **keywords)


def given_values(options: argparse.Namespace, cls: type) -> dict:
    """Returns the values of a dataclass that were given on the command line."""
    names = [field.name for field in dataclasses.fields(cls)]
    given = vars(options)
    return {name: given[name] for name in names if name in given}


def open_translator(
    options: argparse.Namespace, task: Task | None = None
) -> "Translator":
    """Opens the runs, which must be for the task, with the search of flags."""
    from keras_transformer.inference.run import Run
    from keras_transformer.inference.translator import Translator

    runs = [Run.open(path) for path in options.runs]
    found = runs[0].task
    if task is not None and task.name != found.name:
        command = "translate" if found.targets_are_text else "parse"
        raise InputError(
            f"The runs must be for {task.name}. Received: {runs[0].path}, "
            f"which is for {found.name}. Use `keras-transformer {command}`."
        )
    n_best = getattr(options, "n_best", None)
    return Translator.open(
        runs,
        options.checkpoint,
        search_of(options, runs[0]),
        1 if n_best is None else n_best,
        options.dtype,
        task,
    )


def search_of(options: argparse.Namespace, run: "Run") -> Search:
    """Returns the search; what was not given is the default of the task."""
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
    return dataclasses.replace(converted(run.task.search, kind), **values)
