"""What commands are made of: flags, and what was given with them."""

import argparse
import dataclasses
import types
import typing
from collections.abc import Callable, Collection

import keras_transformer as kt
from keras_transformer import litert
from keras_transformer.decoding.search import (
    BeamSearch,
    Sampling,
    Search,
    converted,
)
from keras_transformer.presets import PRESETS
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import POSITIVE_INTEGER, SEED
from keras_transformer.support.startup import (
    available_cores,
    decoding_workers,
    import_tensorflow_quietly,
)
from keras_transformer.tasks import ParsingTask, Task

# Adds a flag, or several, or a positional argument.
Flag = Callable[[argparse._ActionsContainer], typing.Any]
Command = Callable[[argparse.Namespace], None]


def command(
    *several: Flag, needs_tensorflow: bool = True
) -> Callable[[Command], Command]:
    """Gives a command its flags; its docstring is its summary in the help.

    TensorFlow is imported before the command, unless it is said not to need
    it; then the command may still import it, with `open_runs`.
    """

    def with_flags(function: Command) -> Command:
        function.add_flags = flags(*several)
        function.needs_tensorflow = needs_tensorflow
        return function

    return with_flags


def add_commands(
    parser: argparse.ArgumentParser, metavar: str, *commands: Command
) -> None:
    """Lets a parser choose a command, which is its option `command`."""
    subparsers = parser.add_subparsers(required=True, metavar=metavar)
    for function in commands:
        text = function.__doc__
        subparser = subparsers.add_parser(
            function.__name__,
            help=text[0].lower() + text[1:].rstrip("."),
            allow_abbrev=False,
        )
        function.add_flags(subparser)
        subparser.set_defaults(command=function)


# === Flags ===


def flag(name: str, text: str, **keywords: typing.Any) -> Flag:
    """Returns a flag, or a positional argument.

    `--flag` is a boolean, `--flag VALUE` has a value, and `--flag N` an
    integer. The help is the text and, unless the text says it, the default.
    """
    name, _, metavar = name.partition(" ")
    if metavar:
        keywords["metavar"] = metavar
    if metavar == "N":
        keywords.setdefault("type", integer)
    if name.startswith("--") and not keywords:
        keywords["action"] = "store_true"
    if keywords.get("default") and "(default" not in text:
        text += " (default: %(default)s)"
    return lambda parser: parser.add_argument(name, help=text, **keywords)


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
) -> Flag:
    """Returns the flags of a dataclass, or of the fields with some names.

    A flag that is not given has no value.
    """
    value_types = typing.get_type_hints(cls)
    return flags(
        *(
            _field_flag(cls, field, value_types[field.name])
            for field in dataclasses.fields(cls)
            if field.name in (names or value_types)
            and field.name not in without
        ),
        title=title,
    )


def _field_flag(
    cls: type, field: dataclasses.Field, value_type: typing.Any
) -> Flag:
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
    description = field.metadata["description"]
    return flag(
        "--" + field.name.replace("_", "-"),
        f"{description} (default: {_default_text(cls, field)})",
        default=argparse.SUPPRESS,
        **keywords,
    )


def _default_text(cls: type, field: dataclasses.Field) -> str:
    text = str(field.default)
    if any(
        field.name in {"vocab_size", *preset.architecture, *preset.recipe}
        for preset in PRESETS.values()
    ):
        text = f"the preset's; base: {text}"
    if cls is BeamSearch:
        of_trees = getattr(ParsingTask.search, field.name)
        if of_trees != field.default:
            text += f"; of trees: {of_trees}"
        text += "; a run may have its own"
    return text


# === Flags that several commands have ===

_FOLDER = "folder that `train` wrote"
_LITERT = ", or that `export --format litert` wrote"
_AVERAGED = (
    "; the probabilities of several runs with the same tokenizer are averaged"
)
CHECKPOINT = flag(
    "--checkpoint STEP",
    "a step, best (by validation score) or last (default: last)",
)
_DTYPE = flag(
    "--dtype",
    "type of weights and computation; the 16-bit types take half the space "
    "(default: float32)",
    choices=("float32", "bfloat16", "float16"),
)


def _runs(text: str, nargs: str | int = "+") -> Flag:
    return flag("runs", text, nargs=nargs, metavar="run")


RUN = flag("run", _FOLDER)
RUNS = _runs(_FOLDER + _AVERAGED)
# A run, or several, with what chooses its weights.
MODEL = flags(_runs(_FOLDER, 1), CHECKPOINT, _DTYPE)
MODELS = flags(RUNS, CHECKPOINT, _DTYPE)
# Likewise, or an export for LiteRT.
MODEL_OR_LITERT = flags(_runs(_FOLDER + _LITERT, 1), CHECKPOINT, _DTYPE)
MODELS_OR_LITERT = flags(
    _runs(_FOLDER + _LITERT + _AVERAGED), CHECKPOINT, _DTYPE
)
DATA = flags(
    flag(
        "--data PATH",
        "one of: a folder of {train,valid,test}.LANGUAGE, of TFRecord files "
        "or, for parsing, of {train,valid,test}.mrg; two text files; a .tsv "
        "file; tfds:NAME/CONFIG; a folder that `prepare` wrote; embedded (the "
        "bundled corpus)",
        nargs="+",
        required=True,
    ),
    flag("--source LANGUAGE", "language code of the source, e.g. en"),
    flag("--target LANGUAGE", "language code of the target, e.g. de"),
)
PRESET_NAMES = f"one of {', '.join(PRESETS)}"
SEARCH = field_flags(BeamSearch)


# === What was given ===


def given_values(options: argparse.Namespace, cls: type) -> dict:
    """Returns the values of a dataclass that were given on the command line."""
    names = [field.name for field in dataclasses.fields(cls)]
    given = vars(options)
    return {name: given[name] for name in names if name in given}


def open_translator(
    options: argparse.Namespace, task: Task | None = None, n_best: int = 1
) -> "kt.Translator | litert.LiteRTTranslator":
    """Opens the runs or the export for LiteRT, with the search of flags.

    Without --n-best there are `n_best` translations, or fewer if the search
    finds fewer.
    """
    if given_litert(options):
        return open_litert(options, n_best)
    return open_runs(options, task, n_best)


def given_litert(options: argparse.Namespace) -> bool:
    """Returns whether an export for LiteRT is given."""
    return any(map(litert.is_export, options.runs))


def workers_of(options: argparse.Namespace) -> int:
    """Returns how many batches to translate at the same time."""
    # LiteRT computes on the processor.
    return available_cores() if given_litert(options) else decoding_workers()


def open_litert(
    options: argparse.Namespace, n_best: int = 1
) -> "litert.LiteRTTranslator":
    """Does what `open_translator` does, for an export."""
    if len(options.runs) > 1:
        raise InputError(
            "An export for LiteRT translates alone. Average the probabilities "
            "of several runs in one: `keras-transformer export RUN1 RUN2 "
            f"--format litert`. Received: {' '.join(options.runs)}"
        )
    for name in ("checkpoint", "dtype", "sample"):
        if given := getattr(options, name, None):
            raise InputError(
                "An export for LiteRT has the checkpoint and the type that it "
                "was written with, and beam search. Leave out "
                f"--{name}, or use the run. Received: --{name}"
                + ("" if given is True else f" {given}")
            )
    (path,) = options.runs
    default = litert.default_search(litert.read_metadata(path))
    search = search_of(options, default)
    return litert.LiteRTTranslator.open(
        path, search, _num_translations(options, search, n_best)
    )


def open_runs(
    options: argparse.Namespace,
    task: Task | None = None,
    n_best: int = 1,
    dtype: str | None = None,
) -> "kt.Translator":
    """Does what `open_translator` does, for runs, which must be for the task.

    Their dtype is that of --dtype, unless it is given here.
    """
    if given_litert(options):
        raise InputError(
            f"The command needs a run. Received: {' '.join(options.runs)}, an "
            "export for LiteRT, which translate, evaluate, score and serve take"
        )
    import_tensorflow_quietly()
    runs = [kt.Run.open(path) for path in options.runs]
    found = runs[0].task
    if task is not None and task.name != found.name:
        program = "translate" if found.targets_are_text else "parse"
        raise InputError(
            f"The runs must be for {task.name}. Received: {runs[0].path}, "
            f"which is for {found.name}. Use `keras-transformer {program}`."
        )
    search = search_of(options, runs[0].default_search)
    return kt.Translator.open(
        runs,
        options.checkpoint,
        search,
        _num_translations(options, search, n_best),
        dtype or options.dtype or "float32",
        task,
    )


def _num_translations(
    options: argparse.Namespace, search: Search, default: int
) -> int:
    given = getattr(options, "n_best", None)
    return min(default, search.num_hypotheses) if given is None else given


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
