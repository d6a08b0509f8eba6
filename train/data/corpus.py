"""Corpora: pairs of texts from files, folders and TFDS.

The formats are implemented in text_files.py, tfds.py and treebank.py.
"""

import dataclasses
import functools
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from keras_transformer.support.errors import InputError
from keras_transformer.tasks import ParsingTask, Task, TranslationTask
from keras_transformer.train.data import text_files, tfds, treebank
from keras_transformer.train.data.prepared import Prepared, is_prepared
from keras_transformer.train.data.reading import (
    SPLITS,
    Part,
    Reader,
    shared_language,
)

_FORMS = """\
  embedded                 the bundled English-German corpus
  FOLDER                   {train,valid,test}.SOURCE and .TARGET, one text per
                           line; or the treebank {train,valid,test}.mrg
  PREPARED                 a folder that `keras-transformer prepare` wrote
  SOURCE_FILE TARGET_FILE  two files, one text per line
  FILE.tsv                 source, tab, target on each line
  tfds:NAME/CONFIG         a translation dataset of TensorFlow Datasets"""

_DEMO_FOLDER = os.path.join(os.path.dirname(__file__), "demo")

# What an entry of `open_corpora` may contain.
_ENTRY = {"data", "source", "target", "columns", "weight", "tag"}


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Pairs of texts in one or more splits, as `open_corpus` returns them.

    Nothing is kept in memory: each iteration reads the files again.

    Args:
        name: Name in messages.
        task: What the pairs are for.
        parts: Its parts: one, unless `open_corpora` opened several corpora.
        prepared: The prepared corpus, with the ids of the split `train`.
        arguments: The arguments to open it again.
    """

    name: str
    task: Task
    parts: Sequence[Part]
    prepared: Prepared | None = None
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits in any part, such as `"train"`."""
        names = set(["train"] if self.prepared else [])
        names = names.union(*(part.splits for part in self.parts))
        others = sorted(names.difference(SPLITS))
        return *(split for split in SPLITS if split in names), *others

    @property
    def source(self) -> str | None:
        """Language code of the source, if all parts share it."""
        return shared_language(self.parts, "source")

    @property
    def target(self) -> str | None:
        """Language code of the target, if all parts share it."""
        return shared_language(self.parts, "target")

    def request(self) -> dict[str, Any]:
        """Returns the arguments of `open_corpus` or `open_corpora` by name."""
        return {name: x for name, x in self.arguments.items() if x is not None}

    def pairs(self, split: str) -> Iterable[tuple[str, str]]:
        """Returns an iterable of pairs of strings, in the order of the files.

        Each iteration reads the files. It raises InputError where they are
        damaged, and if there are no pairs.

        Raises:
            InputError: If there is no such split.
        """
        read = functools.partial(_read, self._parts_of(split), split)
        return Reader(self.name, read)

    def pairs_of_parts(
        self, split: str
    ) -> Iterator[tuple[Part, list[tuple[str, str]]]]:
        """Yields the pairs of each part; raises as `pairs` does."""
        for part in self._parts_of(split):
            yield part, list(_read([part], split))

    def texts(self, split: str) -> Iterator[str]:
        """Yields source and target of each pair; raises as `pairs` does."""
        return itertools.chain.from_iterable(self.pairs(split))

    def _parts_of(self, split: str) -> list[Part]:
        """Returns the parts with texts of a split, at least one."""
        parts = [part for part in self.parts if split in part.splits]
        if not parts:
            content = f"contains the splits {', '.join(self.splits)}"
            if split in self.splits:
                content = "is prepared, and contains no texts to train on"
            raise InputError(f"{self.name} {content}. Received: {split=}")
        return parts


def _read(parts: Iterable[Part], split: str) -> Iterator[tuple[str, str]]:
    for part in parts:
        for source, target, _ in part.pairs(split):
            yield source, target


def open_corpus(
    data: str | Sequence[str],
    source: str | None = None,
    target: str | None = None,
    columns: Sequence[int] | None = None,
) -> Corpus:
    """Returns the corpus in the given files, folder or dataset.

    Args:
        data: One of:
            `["embedded"]`, the bundled English-German corpus;
            `[FOLDER]` with files such as `train.en` and `train.de`;
            `[FOLDER]` with `train.mrg`, `valid.mrg` or `test.mrg`: a treebank
            of pairs of sentences and trees;
            `[PREPARED]`, a folder that `prepare` wrote, with the ids of the
            split `"train"` and the texts of the others;
            `[SOURCE_FILE, TARGET_FILE]` or `[FILE.tsv]`, with one split,
            `"train"`; a `.txt` file with tabs is read as `.tsv`;
            `["tfds:NAME/CONFIG"]`, a dataset of TensorFlow Datasets with one
            text feature per language, such as `tfds:wmt14_translate/de-en`.
            It is downloaded unless it is in `TFDS_DATA_DIR`. Its split
            `"validation"` is renamed to `"valid"`.
            Lines end in LF or CR LF. Text and trees may be compressed: `.gz`,
            `.bz2`, `.xz`, and `.zst` with the extra `zstd`.
        source: Language code of the source: the extension of the files in a
            folder, or the feature of a TFDS dataset. Optional otherwise.
        target: Language code of the target, for the same forms of data.
        columns: The columns of source and target in a `.tsv` file, counted
            from 1. Default: the first two.

    Raises:
        InputError: If `data` has none of these forms, or files, languages
            or the package for TFDS are missing.
    """
    if isinstance(data, str):
        data = [data]
    data = [os.fspath(item) for item in data]
    name, task = " ".join(data), TranslationTask()
    if source is not None and source == target:
        raise InputError(
            "source and target must be different languages. Received: "
            f"source={source!r}, target={target!r}"
        )
    if columns is not None and not os.path.isfile(name):
        raise InputError(
            "columns requires a single .tsv file. Received: "
            f"columns={columns}, data={data}"
        )
    if name == "embedded":
        source = source or ("de" if target == "en" else "en")
        target = target or ("en" if source == "de" else "de")
        splits = text_files.open_folder(_DEMO_FOLDER, source, target)
    elif name.startswith("tfds:"):
        splits = tfds.open_splits(name, source, target)
    elif is_prepared(name):
        return _open_prepared(name, source, target)
    elif os.path.isdir(name):
        splits = {} if source or target else treebank.open_folder(name)
        if splits:
            task = ParsingTask().for_corpus()
        else:
            splits = text_files.open_folder(name, source, target)
    else:
        splits = {"train": _open_files(data, columns)}
    part = Part(data=data, splits=splits, source=source, target=target)
    columns = columns and list(columns)
    arguments = dict(data=data, source=source, target=target, columns=columns)
    return Corpus(name, task, [part], arguments=arguments)


def _open_files(data: list[str], columns: Sequence[int] | None) -> Reader:
    wrong = [x for x in data if os.path.isdir(x) or not os.path.exists(x)]
    if wrong or len(data) not in (1, 2):
        wrong = f", but {wrong[0]} is not a file" if wrong else ""
        raise InputError(
            f"The data must be one of\n{_FORMS}\nReceived: {data}{wrong}"
        )
    if len(data) == 2:
        return text_files.open_two_files(data)
    return text_files.open_table(data[0], columns)


def _open_prepared(
    folder: str, source: str | None, target: str | None
) -> Corpus:
    prepared = Prepared.open(folder)
    parts = [
        dataclasses.replace(
            part, source=part.source or source, target=part.target or target
        )
        for part in prepared.parts
    ]
    languages = tuple(
        shared_language(parts, side) for side in ("source", "target")
    )
    if (source or languages[0], target or languages[1]) != languages:
        raise InputError(
            f"{folder} was prepared for {languages[0]} to {languages[1]}. "
            f"Received: source={source!r}, target={target!r}"
        )
    place = os.path.abspath(folder)
    arguments = dict(data=[place], source=languages[0], target=languages[1])
    return Corpus(folder, prepared.task, parts, prepared, arguments)


def open_corpora(
    entries: Sequence[Mapping[str, Any]],
    source: str | None = None,
    target: str | None = None,
) -> Corpus:
    """Returns several corpora as one, with the pairs of all of them.

    Args:
        entries: For each corpus its `data`, `source`, `target` and `columns`,
            as in `open_corpus`; `weight`, how often a pass reads each of its
            pairs (default: 1); and `tag`, such as `<bt>` or `>>fra<<`, which
            is prepended to its sources. Only `data` is required.
        source: Source language of entries without one.
        target: Target language of entries without one.

    Raises:
        InputError: If an entry is invalid, or the entries do not fit together.
    """
    parts, values = [], []
    for entry in entries:
        if not {"data"} <= set(entry) <= _ENTRY:
            raise InputError(
                "Each corpus requires data; weight, tag, source, target and "
                f"columns are optional. Received: {entry!r:.100}"
            )
        corpus = open_corpus(
            entry["data"],
            entry.get("source") or source,
            entry.get("target") or target,
            entry.get("columns"),
        )
        if corpus.prepared or corpus.task.name != TranslationTask.name:
            raise InputError(
                "Only corpora of texts can be combined. Received: "
                f"{corpus.name}, which is prepared, or a treebank"
            )
        own = {x: entry[x] for x in ("weight", "tag") if x in entry}
        parts.append(dataclasses.replace(corpus.parts[0], **own))
        values.append({**corpus.request(), **own})
    languages = {part.language for part in parts}
    targets = {part.target for part in parts} - {None}
    if None in languages and (len(languages) > 2 or len(targets) > 1):
        received = (f"{x} to {x.target or 'unknown'}" for x in parts)
        raise InputError(
            "With several target languages, the tag of each corpus must begin "
            f"with its own, such as >>fra<<. Received: {', '.join(received)}"
        )
    name = " + ".join(map(str, parts))
    return Corpus(name, TranslationTask(), parts, arguments={"corpora": values})
