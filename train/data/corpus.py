"""Corpora: pairs of texts from files, folders and TFDS.

The formats are implemented in text_files.py, tfds.py and treebank.py.
"""

import dataclasses
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keras_transformer.support.compressed import without_suffix
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import ParsingTask, Task, TranslationTask
from keras_transformer.train.data import text_files, tfds, treebank
from keras_transformer.train.data.mixture import Entry, Mixture, parse_entries
from keras_transformer.train.data.prepared import (
    SIDES,
    Prepared,
    is_prepared,
)
from keras_transformer.train.data.reading import SPLITS, Split

_FORMS = """\
  embedded                 the bundled English-German corpus
  FOLDER                   {train,valid,test}.SOURCE and .TARGET, one text per
                           line; or the treebank {train,valid,test}.mrg
  PREPARED                 a folder that `keras-transformer prepare` wrote
  SOURCE_FILE TARGET_FILE  two files, one text per line
  FILE.tsv                 source, tab, target on each line
  tfds:NAME/CONFIG         a translation dataset of TensorFlow Datasets"""

_DEMO_FOLDER = os.path.join(os.path.dirname(__file__), "demo")
_DEMO_LANGUAGES = {"en", "de"}


class Corpus:
    """Pairs of texts in one or more splits, as `open_corpus` returns them.

    Nothing is kept in memory: each iteration reads the files again.

    Args:
        name: How the user refers to it: the `data` of `open_corpus`.
        splits: The splits by name, such as `"train"`, `"valid"`, `"test"`.
        source: Language code of the source, or None if it is unknown.
        target: Language code of the target, or None.
        task: What the pairs are for. Default: translation.
        prepared: The ids of the split `train` if the corpus is prepared.
        parts: The corpora that it consists of, and what the user says of
            each; none if it is one.

    Attributes:
        splits: Names of the splits.
    """

    def __init__(
        self,
        name: str,
        splits: Mapping[str, Split],
        source: str | None,
        target: str | None,
        task: Task | None = None,
        prepared: Prepared | None = None,
        parts: "Sequence[tuple[Entry, Corpus]]" = (),
    ) -> None:
        self.name = name
        self.task = task or TranslationTask()
        self.splits = tuple(splits)
        self.source = source
        self.target = target
        self.prepared = prepared
        self.parts = parts
        self._splits = dict(splits)

    def pairs(self, split: str) -> Split:
        """Returns an iterable of pairs of strings, in the order of the files.

        Each iteration reads the files. It raises `InputError` where they are
        damaged and if there are no pairs, as this method does if there is no
        such split.
        """
        if split not in self._splits:
            raise InputError(
                f"The corpus has the splits {', '.join(self.splits)}. "
                f"Received: split={split!r}"
            )
        return self._splits[split]

    def pairs_of_parts(
        self, split: str
    ) -> Iterator[tuple[Entry, list[tuple[str, str]]]]:
        """Yields the pairs of each of the corpora; raises as `pairs` does."""
        pairs = self.pairs(split)
        if not isinstance(pairs, Mixture):
            pairs = Mixture(self.name, parts=[(Entry(data=[self.name]), pairs)])
        for part in pairs.parts:
            yield part[0], list(Mixture(self.name, parts=[part]))

    def texts(self, split: str) -> Iterator[str]:
        """Yields source and target of each pair; raises as `pairs` does."""
        return itertools.chain.from_iterable(self.pairs(split))


def open_corpus(
    data: str | Sequence[str],
    source: str | None = None,
    target: str | None = None,
) -> Corpus:
    """Returns the corpus in the given files, folder or dataset.

    Args:
        data: One of:
            `["embedded"]`, the bundled English-German corpus;
            `[FOLDER]` with files such as `train.en` and `train.de`;
            `[FOLDER]` with `train.mrg`, `valid.mrg` or `test.mrg`: a treebank,
            whose pairs are sentences and trees;
            `[PREPARED]`, a folder that `prepare` wrote, which has ids of its
            split `"train"`, and texts of the others;
            `[SOURCE_FILE, TARGET_FILE]` or `[FILE.tsv]`, which have one
            split, `"train"`;
            `["tfds:NAME/CONFIG"]`, a dataset of TensorFlow Datasets with one
            text feature per language, such as `tfds:wmt14_translate/de-en`.
            It is downloaded unless it is in `TFDS_DATA_DIR`. Its split
            `"validation"` is renamed to `"valid"`.
            Lines end in LF or CR LF. Text and trees may be compressed: `.gz`,
            `.bz2`, `.xz`, and `.zst` with the package zstandard.
        source: Language code of the source: the extension of the files in a
            folder, the feature of a TFDS dataset. Not needed otherwise.
        target: Language code of the target, for the same forms of data.

    Raises:
        InputError: If `data` has none of these forms, or files, languages
            or the package for TFDS are missing.
    """
    if isinstance(data, str):
        data = [data]
    data = [os.fspath(item) for item in data]
    if source is not None and source == target:
        raise InputError(
            "source and target must be different languages. Received: "
            f"source={source!r}, target={target!r}"
        )
    if len(data) == 2:
        return _open_two_files(data, source, target)
    if len(data) != 1 or not data[0]:
        raise InputError(f"The data must be one of\n{_FORMS}\nReceived: {data}")
    name = data[0]
    if name == "embedded":
        return _open_embedded(source, target)
    if name.startswith("tfds:"):
        dataset = name.removeprefix("tfds:")
        splits = tfds.open_splits(dataset, source, target)
        return Corpus(name, splits, source, target)
    if is_prepared(name):
        return _open_prepared(name, source, target)
    if os.path.isdir(name):
        return _open_folder(name, source, target)
    _check_exists(name)
    if without_suffix(os.path.basename(name)) in treebank.FILES:
        raise InputError(
            "A treebank is a folder with train.mrg, valid.mrg or test.mrg. "
            f"Received: {name}. Name its folder."
        )
    if not without_suffix(name).endswith(".tsv"):
        raise InputError(
            "A single file must be a .tsv file with source, tab, target on "
            f"each line. Received: {name}. If it has one language, name the "
            "file of the other language too."
        )
    splits = {"train": text_files.Tsv(name, [name])}
    return Corpus(name, splits, source, target)


def open_corpora(
    entries: Sequence[Entry | Mapping[str, Any]],
    source: str | None = None,
    target: str | None = None,
) -> Corpus:
    """Returns several corpora as one, whose splits have all their pairs.

    Args:
        entries: For each corpus its `data`, as in `open_corpus`, and perhaps
            `weight`, how often a pass reads each of its pairs (default: 1),
            `tag`, a text such as `<bt>` or `>>fra<<` that stands before its
            sources, and the languages `source` and `target`.
        source: Language of the source of entries that have none.
        target: Language of the target of entries that have none.

    Raises:
        InputError: If an entry is invalid, or they do not fit together.
    """
    parts = []
    for entry in parse_entries(entries):
        languages = entry.source or source, entry.target or target
        corpus = open_corpus(entry.data, *languages)
        languages = dict(source=corpus.source, target=corpus.target)
        parts.append((dataclasses.replace(entry, **languages), corpus))
        if corpus.prepared or corpus.task.name != TranslationTask.name:
            raise InputError(
                "Several corpora must have texts to translate. Received: "
                f"{entry}, which is prepared already, or a treebank"
            )
    return _mix(parts)


def _mix(
    parts: Sequence[tuple[Entry, Corpus]], prepared: Prepared | None = None
) -> Corpus:
    """Returns corpora as one, of which `train` may be prepared."""
    languages = {entry.language for entry, _ in parts}
    targets = {entry.target for entry, _ in parts} - {None}
    if None in languages and (len(languages) > 2 or len(targets) > 1):
        received = (f"{x} to {x.target or 'unknown'}" for x, _ in parts)
        raise InputError(
            "Corpora with several target languages need a tag each that begins "
            f"with it, such as >>fra<<. Received: {', '.join(received)}"
        )
    name = " + ".join(corpus.name for _, corpus in parts)
    splits: dict[str, Split] = {} if prepared is None else {"train": prepared}
    for split in SPLITS:
        own = [
            (entry, corpus.pairs(split))
            for entry, corpus in parts
            if split in corpus.splits
        ]
        if own:
            splits[split] = Mixture(f"{name}, {split}", parts=own)
    if prepared is not None:
        name = str(prepared.path)
    # The languages that they share.
    sides = ({getattr(x, side) for x, _ in parts} for side in SIDES)
    source, target = (x.pop() if len(x) == 1 else None for x in sides)
    return Corpus(name, splits, source, target, None, prepared, parts)


def _check_exists(path: str) -> None:
    if not os.path.exists(path):
        raise InputError(
            f"There is no file or folder of this name. Received: {path}. "
            f"The data can be one of\n{_FORMS}"
        )


def _open_two_files(
    paths: Sequence[str], source: str | None, target: str | None
) -> Corpus:
    for path in paths:
        _check_exists(path)
        if os.path.isdir(path):
            raise InputError(
                "Two names must be the files of source and target. Received: "
                f"{path}, which is a folder. The data can be one of\n{_FORMS}"
            )
    name = " ".join(paths)
    splits = {"train": text_files.LineFiles(" and ".join(paths), paths)}
    return Corpus(name, splits, source, target)


def _open_embedded(source: str | None, target: str | None) -> Corpus:
    """Returns the bundled corpus; a missing language is the other one."""
    source = source or ("de" if target == "en" else "en")
    target = target or ("en" if source == "de" else "de")
    if {source, target} != _DEMO_LANGUAGES:
        raise InputError(
            "The bundled corpus is English and German. Received: "
            f"source={source!r}, target={target!r}; use en and de."
        )
    splits = text_files.open_folder(_DEMO_FOLDER, [], source, target)
    return Corpus("embedded", splits, source, target)


def _open_prepared(
    folder: str, source: str | None, target: str | None
) -> Corpus:
    prepared = Prepared.open(folder)
    languages = prepared.source or source, prepared.target or target
    if (source or languages[0], target or languages[1]) != languages:
        raise InputError(
            f"{folder} was prepared for {languages[0]} to {languages[1]}. "
            f"Received: source={source!r}, target={target!r}"
        )
    if prepared.parts:
        parts = [
            (x, Corpus(str(x), prepared.texts(number), x.source, x.target))
            for number, (x, _) in enumerate(prepared.parts)
        ]
        return _mix(parts, prepared)
    splits = {"train": prepared, **prepared.texts()}
    return Corpus(folder, splits, *languages, prepared.task, prepared)


def _open_folder(folder: str, source: str | None, target: str | None) -> Corpus:
    """Returns the corpus of the text files or the treebank in a folder."""
    names = sorted(os.listdir(folder))
    trees = [name for name in names if without_suffix(name) in treebank.FILES]
    others = [name for name in names if name not in trees]
    texts = [name for name in others if name.partition(".")[0] in SPLITS]
    if trees and texts:
        raise InputError(
            "A folder must have either text files or a treebank. Received: "
            f"{folder} with {texts[0]} and {trees[0]}"
        )
    if trees:
        if source or target:
            raise InputError(
                "A treebank has no source and target language. Received: "
                f"source={source!r}, target={target!r}"
            )
        task = ParsingTask().for_corpus()
        splits = treebank.open_folder(folder, trees)
        return Corpus(folder, splits, None, None, task)
    splits = text_files.open_folder(folder, texts, source, target)
    return Corpus(folder, splits, source, target)
