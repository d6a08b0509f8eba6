"""Types that cyclopts turns into flags, for several commands.

The annotations of a command are its flags, and its docstring is their help.
"""

import dataclasses
import functools
import os
import typing
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

from cyclopts import Group, Parameter
from cyclopts.validators import Number

import keras_transformer as kt
from keras_transformer.decoding.settings import BeamSearch, Sampling, converted
from keras_transformer.inference.exports import Export
from keras_transformer.inference.opening import open_translator, read_folder
from keras_transformer.runs.run_folder import Run
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import Task
from keras_transformer.train.data.filters import PairFilters
from keras_transformer.train.data.reading import CorpusEntry

# Ends the titles of groups that `--help-all` shows and `--help` does not.
RARE = ", rarely needed"
_RARE_MODEL = Group("Model" + RARE, sort_key=3.5)


# === Values ===

PositiveInteger = Annotated[int, Parameter(validator=Number(gte=1))]
NumTranslations = Annotated[PositiveInteger | None, Parameter(name="--n-best")]
Workers = Annotated[
    PositiveInteger | None,
    Parameter(
        help="Batches to compute at the same time; each takes memory "
        "(default: one per core, at most 8 for LiteRT; 1 for serve).",
        group=_RARE_MODEL,
    ),
]


# === Flags from dataclasses ===


def flags_of(
    cls: type,
    title: str,
    order: float = 0,
    *,
    without: Collection[str] = (),
    common: Collection[str] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Any:
    """Returns the type of a parameter that turns dataclass fields into flags.

    The command gets the flags that were typed as a dictionary. `--help` shows
    the `common` flags, by default all; `--help-all` shows the others, too. The
    help shows `defaults` instead of the defaults of fields.
    """
    shown = Group(title, sort_key=order)
    hidden = Group(title + RARE, sort_key=order + 0.5)
    field_types = typing.get_type_hints(cls)
    flags = {}
    for field in dataclasses.fields(cls):
        if field.name in without:
            continue
        description = field.metadata["description"]
        default = (defaults or {}).get(field.name, field.default)
        parameter = Parameter(
            group=shown if common is None or field.name in common else hidden,
            help=f"{description[0].upper()}{description[1:]}.",
            show_default="none" if default is None else str(default),
            choices=field.metadata["rule"].choices or None,
        )
        flags[field.name] = Annotated[field_types[field.name], parameter]
    values = TypedDict(f"{cls.__name__}Flags", flags, total=False)
    return Annotated[values | None, Parameter(name="*")]


_SEARCH = {
    field.name: f"{field.default}, unless the run has its own"
    for field in dataclasses.fields(BeamSearch)
}
_search_flags = functools.partial(
    flags_of, BeamSearch, "Search", 4, defaults=_SEARCH
)
SearchFlags = _search_flags(common=("beam_size", "alpha"))
ScoreFlags = _search_flags(without=_SEARCH.keys() - {"alpha", "length_penalty"})
SamplingFlags = flags_of(
    Sampling,
    "Sampling",
    5,
    without=_SEARCH.keys(),
    common=("temperature", "top_k", "top_p"),
)
FilterFlags = flags_of(
    PairFilters,
    "Filters",
    5,
    common=("max_ratio", "deduplicate", "drop_identical"),
)


# === Flags of several commands ===

_RUN = "Run folder, or Hub name (Helsinki-NLP/opus-mt-en-de)"
_MODEL = (
    "Run folder, Hub name (Helsinki-NLP/opus-mt-en-de), SavedModel, LiteRT "
    "folder, or en-de, the included model"
)
_ENSEMBLE = ". Several runs with one tokenizer form an ensemble."
_DATA = (
    "A folder of {train,valid,test}.LANGUAGE or, for parsing, of "
    "{train,valid,test}.mrg; two text files; a .tsv file; "
    "tfds:NAME/CONFIG; a folder that `prepare` wrote; or embedded, the bundled "
    "corpus"
)

RunFlag = Annotated[str, Parameter(help=f"{_RUN}.")]
RunsFlag = Annotated[list[str], Parameter(help=_RUN + _ENSEMBLE)]
ModelsFlag = Annotated[list[str], Parameter(help=_MODEL + _ENSEMBLE)]
CorpusFlag = Annotated[list[str] | None, Parameter(help=f"{_DATA}.")]
RunCorpusFlag = Annotated[
    CorpusFlag, Parameter(help=f"{_DATA} (default: the training data).")
]
_RARE_DATA = Group("Data" + RARE, sort_key=3.5)
CorporaFlag = Annotated[
    list[CorpusEntry] | None,
    Parameter(
        help="One of several corpora, once for each: "
        '\'{"data": "FOLDER", "weight": 2, "tag": ">>deu<<", "source": "en", '
        '"target": "de", "columns": [1, 2]}'
        "'; only data is required. In a file of --config it is a list.",
        group=_RARE_DATA,
        json_list=True,
        json_dict=True,
        n_tokens=1,
    ),
]
TokenizerFlag = Annotated[
    list[Path] | None,
    Parameter(
        help="Tokenizer to use: a run, a prepared corpus, or one or two "
        "SentencePiece models (source, target).",
    ),
]
TargetLanguageFlag = Annotated[
    str | None,
    Parameter(
        help="Target language of a multilingual model; fra is short for "
        "`>>fra<<`, which may also begin a source.",
        group=_RARE_MODEL,
    ),
]


@Parameter(name="*")
@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusFlags:
    """How to read a corpus.

    Args:
        source: Language code of the source, e.g. en.
        target: Language code of the target, e.g. de.
        columns: Columns of source and target in a .tsv file, counted from 1
            (default: 1 2).
    """

    source: str | None = None
    target: str | None = None
    columns: Annotated[
        tuple[PositiveInteger, PositiveInteger] | None,
        Parameter(group=_RARE_DATA),
    ] = None

    def open(
        self, data: list | None, corpora: list | None
    ) -> "kt.train.Corpus":
        """Opens one corpus, or several as one."""
        if bool(data) == bool(corpora) or (corpora and self.columns):
            raise InputError(
                "Pass either DATA or --corpora, whose entries have columns of "
                "their own."
            )
        if corpora:
            return kt.train.open_corpora(corpora, self.source, self.target)
        return kt.train.open_corpus(
            data, self.source, self.target, self.columns
        )


@Parameter(name="*", group=Group("Model", sort_key=3))
@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelFlags:
    """How to open a model.

    Args:
        checkpoint: A step, best (by validation score) or last (default: last).
        dtype: Type of weights and computation: float32 (default), bfloat16 or
            float16. The last two take half the space, and more time on CPUs
            without instructions for them.
        tag: Tag to add to sources without one; bt is short for `<bt>`.
        no_shortlist: Ignore the shortlist of an export.
    """

    checkpoint: str | None = None
    dtype: str | None = None
    target_language: TargetLanguageFlag = None
    tag: Annotated[str | None, Parameter(group=_RARE_MODEL)] = None
    no_shortlist: Annotated[bool, Parameter(group=_RARE_MODEL)] = False

    def open(
        self,
        runs: Sequence[str | os.PathLike | Run | Export],
        search: Mapping[str, Any] | None,
        num_translations: int | None = None,
        task: Task | None = None,
        sampling: Mapping[str, Any] | None = None,
        reads_many: bool = False,
        workers: int | None = None,
    ) -> "kt.Translator":
        """Opens runs, with their own search except for the given settings.

        With `sampling`, which may be empty, the search draws samples.
        """
        if reads_many and workers != 1:
            # TensorFlow reads it when it is imported: on CPU each core
            # computes a batch of its own.
            os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
        settings = None
        if search or sampling is not None:
            settings = read_folder(runs[0]).search or BeamSearch()
            if sampling is not None:
                settings = converted(settings, Sampling)
            changes = {**(search or {}), **(sampling or {})}
            settings = dataclasses.replace(settings, **changes)
        translator = open_translator(
            runs,
            checkpoint=self.checkpoint,
            dtype=self.dtype,
            target_language=self.target_language,
            tag=self.tag,
            shortlist=not self.no_shortlist,
            search=settings,
            num_translations=num_translations or 1,
            task=task,
        )
        if workers or reads_many:
            translator.workers = workers or translator.recommended_workers
        return translator
