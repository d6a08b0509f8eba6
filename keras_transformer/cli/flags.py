"""Types that cyclopts makes flags of, for several commands.

The annotations of a command are its flags, and its docstring is their help.
"""

import contextlib
import dataclasses
import functools
import json
import re
import typing
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from cyclopts import Group, Parameter, Token
from cyclopts.validators import Number

from keras_transformer.decoding.settings import (
    BeamSearch,
    Sampling,
    Search,
    converted,
)
from keras_transformer.export.writing import FORMATS
from keras_transformer.inference.opening import open_translator, read_folder
from keras_transformer.presets import PRESETS
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import SEED
from keras_transformer.tasks import ParsingTask, Task
from keras_transformer.train.data.filters import PairFilters

if TYPE_CHECKING:
    from keras_transformer.inference.base import BaseTranslator

# Ends the titles of groups that `--help-all` shows and `--help` does not.
RARE = ", rarely needed"


def read_integer(type_: Any, tokens: Sequence[Token]) -> int:
    """Converts the value of a flag; cyclopts itself would round 1.5 to 2."""
    (token,) = tokens
    if re.fullmatch(r"[+-]?[0-9]{1,18}", token.value) is None:
        raise ValueError(f"must be an integer. Received: {token.value}")
    return int(token.value)


def read_entries(type_: Any, tokens: Sequence[Token]) -> list[dict]:
    """Converts the values of --corpora; cyclopts itself would not say why."""
    try:
        values = [json.loads(token.value) for token in tokens]
    except ValueError as error:
        raise ValueError(
            """must be JSON, as '{"data": "FOLDER"}'. Received: """
            + ", ".join(token.value for token in tokens)
        ) from error
    for entry in values:
        # In a file of --config a number is as it is written.
        with contextlib.suppress(KeyError, TypeError, ValueError):
            entry["weight"] = float(entry["weight"])
        with contextlib.suppress(KeyError, TypeError, ValueError):
            entry["columns"] = [int(column) for column in entry["columns"]]
    return values


_FITS_A_TENSOR = Number(lt=2**31)
Integer = Annotated[
    int, Parameter(converter=read_integer, validator=_FITS_A_TENSOR)
]
PositiveInteger = Annotated[
    int, Parameter(converter=read_integer, validator=Number(gte=1, lt=2**31))
]


# === Flags from dataclasses ===


def flags_of(
    cls: type,
    title: str,
    order: float = 0,
    *,
    names: Collection[str] = (),
    without: Collection[str] = (),
    common: Collection[str] | None = None,
    default_of: Callable[[dataclasses.Field], Any] = lambda x: x.default,
) -> Any:
    """Returns the type of a parameter whose flags are fields of a dataclass.

    They are those of `names`, by default all, `without` some, which are fields
    of `support.fields.described`. `--help` shows those that are `common`, by
    default all, and `--help-all` the others too, under a title in an order. The
    default value of the parameter must be None. A command gets the values of
    flags on the command line as a dictionary, or None without such flags.
    """
    shown = Group(title, sort_key=order)
    hidden = Group(title + RARE, sort_key=order + 0.5)
    types = typing.get_type_hints(cls)
    flags = {}
    for field in dataclasses.fields(cls):
        if field.name in without or (names and field.name not in names):
            continue
        value_type, rule = types[field.name], field.metadata["rule"]
        default = default_of(field)
        parameter = Parameter(
            group=shown if common is None or field.name in common else hidden,
            help=_as_help(field.metadata["description"], types),
            show_default="none" if default is None else str(default),
            choices=rule.choices or None,
        )
        if value_type in (int, int | None):
            # A seed may be larger, which its rule checks.
            check = () if rule == SEED else _FITS_A_TENSOR
            integer = Parameter(converter=read_integer, validator=check)
            value_type = Annotated[value_type, integer]
        flags[field.name] = Annotated[value_type, parameter]
    values = TypedDict(f"{cls.__name__}Flags", flags, total=False)
    return Annotated[values | None, Parameter(name="*")]


def _as_help(description: str, fields: Collection[str]) -> str:
    """Returns a description as a sentence, with fields as flags."""

    def flag(name: re.Match) -> str:
        is_field = name[0] in fields
        return "--" + name[0].replace("_", "-") if is_field else name[0]

    text = re.sub(r"\w+_\w+", flag, description)
    return f"{text[0].upper()}{text[1:]}."


def small_default(field: dataclasses.Field) -> Any:
    """Returns the value of a field in the preset small, for `flags_of`."""
    small = PRESETS["small"]
    values = {**small._asdict(), **small.architecture, **small.recipe}
    return values.get(field.name, field.default)


def _search_default(field: dataclasses.Field) -> str:
    of_trees = getattr(ParsingTask.search, field.name)
    trees = f"; of trees: {of_trees}" if of_trees != field.default else ""
    return f"{field.default}{trees}; a run may have its own"


_search_flags = functools.partial(
    flags_of, BeamSearch, "Search", 4, default_of=_search_default
)


# === Flags that several commands have ===

FilterFlags = flags_of(
    PairFilters,
    "Filters",
    5,
    common=("max_ratio", "deduplicate", "drop_identical"),
)

_RUN = (
    "Folder that `train`, `average` or `import` wrote, or name on the Hugging "
    "Face Hub, as Helsinki-NLP/opus-mt-en-de"
)
_EXPORT = ", or a SavedModel or export for LiteRT, or en-de, the included model"
_AVERAGED = (
    "; the probabilities of several runs with the same tokenizer are averaged."
)
_DATA = (
    "A folder of {train,valid,test}.LANGUAGE or, for parsing, of "
    "{train,valid,test}.mrg; two text files; a .tsv file; "
    "tfds:NAME/CONFIG; a folder that `prepare` wrote; or embedded, the bundled "
    "corpus"
)
_DTYPES = tuple(
    dict.fromkeys(dtype for x in FORMATS.values() for dtype in x.tolerances)
)
_SAMPLING = Group("Sampling", sort_key=5)

RunFlag = Annotated[str, Parameter(help=f"{_RUN}.")]
RunsFlag = Annotated[list[str], Parameter(help=_RUN + _AVERAGED)]
ModelsFlag = Annotated[list[str], Parameter(help=_RUN + _EXPORT + _AVERAGED)]
CorpusFlag = Annotated[list[str] | None, Parameter(help=f"{_DATA}.")]
_RARE_DATA = Group("Data" + RARE, sort_key=3.5)
CorporaFlag = Annotated[
    list[dict] | None,
    Parameter(
        help="One of several corpora, once for each: "
        '\'{"data": "FOLDER", "weight": 2, "tag": ">>deu<<", "source": "en", '
        '"target": "de", "columns": [1, 2]}'
        "'; only data is required. In a file of --config it is a list.",
        group=_RARE_DATA,
        converter=read_entries,
        n_tokens=1,
    ),
]
ColumnsFlag = Annotated[
    tuple[PositiveInteger, PositiveInteger] | None,
    Parameter(
        help="Columns of source and target in a .tsv file, counted from 1 "
        "(default: 1 2).",
        group=_RARE_DATA,
    ),
]
RunCorpusFlag = Annotated[
    list[str] | None,
    Parameter(help=f"{_DATA} (default: what the run was trained on)."),
]
SourceFlag = Annotated[
    str | None, Parameter(help="Language code of the source, e.g. en.")
]
TargetFlag = Annotated[
    str | None, Parameter(help="Language code of the target, e.g. de.")
]
TokenizerFlag = Annotated[
    list[Path] | None,
    Parameter(
        help="Use that of a run or a prepared corpus, a SentencePiece model, "
        "or two, of source and target.",
    ),
]
_RARE_MODEL = Group("Model" + RARE, sort_key=3.5)
TargetLanguageFlag = Annotated[
    str | None,
    Parameter(
        help="Language to translate to, of a model with several: fra is short "
        "for `>>fra<<`, with which a source may also begin.",
        group=_RARE_MODEL,
    ),
]
TagFlag = Annotated[
    str | None,
    Parameter(
        help="Tag before each source without one, of a model that was trained "
        "with it: bt is short for `<bt>`.",
        group=_RARE_MODEL,
    ),
]


@Parameter(name="*", group=Group("Model", sort_key=3))
@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelFlags:
    """What a model is opened with.

    Args:
        checkpoint: A step, best (by validation score) or last (default: last).
        dtype: Type of weights and computation: float32 (default), or bfloat16
            and float16, which take half the space.
    """

    checkpoint: str | None = None
    dtype: Annotated[
        str | None, Parameter(choices=_DTYPES, show_choices=False)
    ] = None
    target_language: TargetLanguageFlag = None
    tag: TagFlag = None
    search: _search_flags(common=("beam_size", "alpha")) = None

    def open(
        self,
        runs: Sequence[str],
        num_translations: int = 1,
        task: Task | None = None,
    ) -> "BaseTranslator":
        """Calls `open_translator`; refuses flags that contradict each other."""
        return open_translator(
            runs,
            search=self.choose_search(read_folder(runs[0]).search),
            num_translations=num_translations,
            checkpoint=self.checkpoint,
            dtype=self.dtype,
            target_language=self.target_language,
            tag=self.tag,
            task=task,
        )

    def choose_search(self, default: BeamSearch | None) -> Search | None:
        """Returns the default with the values of flags; None without flags."""
        if not self.search:
            return None
        return dataclasses.replace(default or BeamSearch(), **self.search)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreFlags(ModelFlags):
    """What a model that scores is opened with."""

    search: _search_flags(names=("alpha", "length_penalty")) = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class SamplingFlags(ModelFlags):
    """What a model is opened with that may sample.

    Args:
        sample: Draw translations at random, instead of beam search.
    """

    sample: Annotated[bool, Parameter(group=_SAMPLING)] = False
    sampling: flags_of(
        Sampling,
        "Sampling",
        5,
        without=BeamSearch.__dataclass_fields__,
        common=("temperature", "top_k", "top_p"),
    ) = None

    def choose_search(self, default: BeamSearch | None) -> Search | None:
        values = {**(self.search or {}), **(self.sampling or {})}
        settings, problem = (
            (Sampling, "--sample cannot be combined with a beam size.")
            if self.sample
            else (BeamSearch, "Options of sampling need --sample.")
        )
        others = values.keys() - settings.__dataclass_fields__.keys()
        if others:
            received = (f"{x}={values[x]}" for x in values if x in others)
            raise InputError(f"{problem} Received: {', '.join(received)}")
        if not self.sample:
            return super().choose_search(default)
        search = converted(default or BeamSearch(), Sampling)
        return dataclasses.replace(search, **values)


def refuse(purpose: str, **values: Any) -> None:
    """Raises InputError if flags are given that are for something else."""
    for name, value in values.items():
        if value:
            flag = "--" + name.replace("_", "-")
            raise InputError(f"{flag} is for {purpose}. Leave it out.")
