"""Defines commands and their flags; `arguments.py` checks what was given."""

import argparse
import dataclasses
import re
import types
import typing
from collections.abc import Callable, Collection, Mapping

from keras_transformer.cli.parser import CommandParser
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.presets import PRESETS
from keras_transformer.support.fields import POSITIVE_INTEGER, SEED
from keras_transformer.tasks import ParsingTask

# Adds a flag, or several, or a positional argument.
Flag = Callable[[argparse._ActionsContainer], typing.Any]
Command = Callable[[argparse.Namespace], None]


def command(
    *several: Flag,
    suffixes: Collection[str] = (),
) -> Callable[[Command], Command]:
    """Gives a command its flags; its docstring is its summary in the help.

    If suffixes are given, --output is a file with one of them.
    """

    def with_flags(function: Command) -> Command:
        function.add_flags = flags(*several)
        function.suffixes = suffixes
        return function

    return with_flags


def add_commands(
    parser: CommandParser,
    metavar: str,
    *commands: Command,
    groups: Mapping[str, Collection[Command]] | None = None,
) -> None:
    """Lets a parser choose a command, which is its option `command`.

    The help lists the commands, in groups by title if they are given so.
    """
    subparsers = parser.add_subparsers(
        required=True, metavar=metavar, help=argparse.SUPPRESS, prog=parser.prog
    )
    parser.commands = subparsers.choices
    for title, functions in (groups or {metavar: commands}).items():
        group = parser.add_argument_group(title)
        for function in functions:
            name = function.__name__.rstrip("_")  # `import_`: a keyword
            text = function.__doc__
            subparser = subparsers.add_parser(name, description=text)
            function.add_flags(subparser)
            subparser.set_defaults(command=function)
            subparser.finish()
            # argparse itself has no groups of commands.
            text = text[0].lower() + text[1:].rstrip(".")
            group._group_actions.append(argparse.Action([], name, help=text))


# === Flags ===


class _Extend(argparse.Action):
    """Joins the values of a repeated flag, which replace its default."""

    def __call__(self, parser, namespace, values, option_string=None) -> None:
        earlier = getattr(namespace, self.dest)
        if earlier is self.default:
            earlier = []
        setattr(namespace, self.dest, [*earlier, *values])


def flag(
    name: str, text: str, is_rare: bool = False, **keywords: typing.Any
) -> Flag:
    """Returns a flag, or a positional argument.

    `--flag` is a boolean, `--flag VALUE` has a value, and `--flag N` a
    positive integer. The help is the text and, unless the text says it, the
    default. That of a rare flag is in `--help-all` only.
    """
    name, _, metavar = name.partition(" ")
    if metavar:
        keywords["metavar"] = metavar
    if metavar == "N":
        keywords.setdefault("type", positive_integer)
    if name.startswith("--") and not keywords:
        keywords["action"] = "store_true"
    if name.startswith("--") and "nargs" in keywords:
        # `--input A --input B` is `--input A B`.
        keywords["action"] = _Extend
    if keywords.get("default") and "(default" not in text:
        text += " (default: %(default)s)"

    def add(parser: argparse._ActionsContainer) -> None:
        action = parser.add_argument(name, help=text, **keywords)
        action.is_rare = is_rare

    return add


def flags(*several: Flag, title: str | None = None) -> Flag:
    """Returns several flags as one, with a title of their own in the help."""

    def add(parser: argparse._ActionsContainer) -> None:
        group = parser if title is None else parser.add_argument_group(title)
        for one in several:
            one(group)

    return add


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


def field_flags(
    cls: type,
    names: Collection[str] = (),
    without: Collection[str] = (),
    title: str | None = None,
    common: Collection[str] | None = None,
) -> Flag:
    """Returns the flags of a dataclass, or of the fields with some names.

    A flag that is not given has no value. If `common` is given, flags with
    other names are rare.
    """
    value_types = typing.get_type_hints(cls)
    return flags(
        *(
            _field_flag(
                cls,
                field,
                value_types,
                common is not None and field.name not in common,
            )
            for field in dataclasses.fields(cls)
            if field.name in (names or value_types)
            and field.name not in without
        ),
        title=title,
    )


def _field_flag(
    cls: type,
    field: dataclasses.Field,
    value_types: typing.Mapping[str, typing.Any],
    is_rare: bool,
) -> Flag:
    value_type = value_types[field.name]
    if isinstance(value_type, types.UnionType):  # such as `int | None`
        value_type = typing.get_args(value_type)[0]
    keywords: dict[str, typing.Any] = dict(action="store_true")
    if value_type is not bool:
        rule = field.metadata["rule"]
        keywords = dict(
            # Seeds go up to 2^32 - 1, which `integer` refuses.
            type=integer if value_type is int and rule != SEED else value_type,
            choices=rule.choices or None,
            metavar=None if value_type is str else value_type.__name__.upper(),
        )
    # The names of fields, in the middle of a text, are those of flags.
    description = re.sub(
        r"\w+_\w+",
        lambda name: _flag_name(name[0]) if name[0] in value_types else name[0],
        field.metadata["description"],
    )
    return flag(
        _flag_name(field.name),
        f"{description} (default: {_default_text(cls, field)})",
        is_rare,
        default=argparse.SUPPRESS,
        **keywords,
    )


def _flag_name(field: str) -> str:
    return "--" + field.replace("_", "-")


def _default_text(cls: type, field: dataclasses.Field) -> str:
    small = PRESETS["small"]  # the default of train
    values = {**small._asdict(), **small.architecture, **small.recipe}
    value = values.get(field.name, field.default)
    text = "none" if value is None else str(value)
    if any(
        field.name in {"vocab_size", *preset.architecture, *preset.recipe}
        for preset in PRESETS.values()
    ):
        text = f"the preset's; small: {text}"
    if cls is BeamSearch:
        of_trees = getattr(ParsingTask.search, field.name)
        if of_trees != field.default:
            text += f"; of trees: {of_trees}"
        text += "; a run may have its own"
    return text


# === Flags that several commands have ===

_FOLDER = "folder that `train`, `average` or `import` wrote"
_EXPORT = ", or a SavedModel or an export for LiteRT"
_AVERAGED = (
    "; the probabilities of several runs with the same tokenizer are averaged"
)
TARGET_LANGUAGE = flag(
    "--target-language LANGUAGE",
    "language to translate to, of a model with several: fra is short for "
    ">>fra<<, with which a source may also begin",
    is_rare=True,
)
_DTYPE = flag(
    "--dtype",
    "type of weights and computation; the 16-bit types take half the space "
    "(default: float32)",
    choices=("float32", "bfloat16", "float16"),
)
# What chooses the weights, and what they translate to.
_CHECKPOINT = (
    flag(
        "--checkpoint STEP",
        "a step, best (by validation score) or last (default: last)",
    ),
    TARGET_LANGUAGE,
)
CHECKPOINT = flags(*_CHECKPOINT, title="model")


def _runs(text: str, nargs: str | int = "+") -> Flag:
    return flag("runs", text, nargs=nargs, metavar="RUN")


def _model(text: str, nargs: str | int = "+") -> Flag:
    return flags(_runs(text, nargs), flags(*_CHECKPOINT, _DTYPE, title="model"))


RUN = flag("run", _FOLDER, metavar="RUN")
RUNS = _runs(_FOLDER + _AVERAGED)
# A run, or several, with what chooses its weights.
MODEL = _model(_FOLDER, 1)
# Likewise, or an export that translates.
MODELS_OR_EXPORT = flags(
    _model(_FOLDER + _EXPORT + _AVERAGED),
    lambda parser: parser.set_defaults(takes_export=True),
)
_FORMS = (
    "one of: a folder of {train,valid,test}.LANGUAGE, of TFRecord files or, "
    "for parsing, of {train,valid,test}.mrg; two text files; a .tsv file; "
    "tfds:NAME/CONFIG; a folder that `prepare` wrote; embedded (the bundled "
    "corpus)"
)
_LANGUAGES = (
    flag("--source LANGUAGE", "language code of the source, e.g. en"),
    flag("--target LANGUAGE", "language code of the target, e.g. de"),
)
# A corpus that is read, and one on which a run is looked at.
CORPUS = flags(flag("data", _FORMS, nargs="+", metavar="DATA"), *_LANGUAGES)
DATA = flags(
    flag(
        "--data DATA",
        f"{_FORMS} (default: what the run was trained on)",
        nargs="+",
    ),
    *_LANGUAGES,
    title="data",
)
PRESET_NAMES = (
    "tiny, small, base, big, parsing-wsj; `keras-transformer presets` has all"
)
SEARCH = field_flags(BeamSearch, title="search", common=("beam_size", "alpha"))
N_BEST = flag(
    "--n-best N",
    "print the N best outputs of each line, each in one line as line number, "
    "score and output, separated by tabs (default: 1, its text alone)",
)
