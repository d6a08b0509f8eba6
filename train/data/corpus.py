"""Opens corpora: pairs of texts from files, folders and TFDS."""

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keras_transformer.support.errors import InputError
from keras_transformer.tasks import ParsingTask, TranslationTask
from keras_transformer.train.data import corpus_files, prepared, tfds
from keras_transformer.train.data.reading import Corpus, CorpusEntry, Part

_FORMS = """\
  embedded                 the bundled English-German corpus
  FOLDER                   {train,valid,test}.SOURCE and .TARGET, one text per
                           line; or the treebank {train,valid,test}.mrg
  PREPARED                 a folder that `keras-transformer prepare` wrote
  SOURCE_FILE TARGET_FILE  two files, one text per line
  FILE.tsv                 source, tab, target on each line
  tfds:NAME/CONFIG         a translation dataset of TensorFlow Datasets"""

_DEMO_FOLDER = os.path.join(os.path.dirname(__file__), "demo")


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
    name = " ".join(data)
    task = TranslationTask()
    if columns is not None and not os.path.isfile(name):
        raise InputError(
            f"requires a single .tsv file. Received: {columns}, with {name}",
            argument="columns",
        )
    if name == "embedded":
        source = source or ("de" if target == "en" else "en")
        target = target or ("en" if source == "de" else "de")
        splits = corpus_files.open_folder(_DEMO_FOLDER, source, target)
    elif name.startswith("tfds:"):
        splits = tfds.open_splits(name, source, target)
    elif prepared.is_prepared(name):
        return prepared.open_prepared(name, source, target)
    elif os.path.isdir(name):
        splits = {} if source or target else corpus_files.open_treebank(name)
        if splits:
            task = ParsingTask().for_corpus()
        else:
            splits = corpus_files.open_folder(name, source, target)
    else:
        splits = {"train": _open_files(data, columns)}
    columns = None if columns is None else list(columns)
    part = Part(
        data=data, source=source, target=target, columns=columns, splits=splits
    )
    return Corpus(name, task, [part])


def _open_files(
    data: list[str], columns: Sequence[int] | None
) -> Iterable[tuple[str, str]]:
    wrong = [x for x in data if os.path.isdir(x) or not os.path.exists(x)]
    if wrong or len(data) not in (1, 2):
        wrong = f", but {wrong[0]} is not a file" if wrong else ""
        raise InputError(
            f"The data must be one of\n{_FORMS}\nReceived: {data}{wrong}"
        )
    if len(data) == 2:
        return corpus_files.open_two_files(data)
    return corpus_files.open_table(data[0], columns)


def open_corpora(
    entries: Sequence[CorpusEntry | Mapping[str, Any]],
    source: str | None = None,
    target: str | None = None,
) -> Corpus:
    """Opens several corpora, and returns them as one.

    Args:
        entries: For each corpus its `data`, `source`, `target` and `columns`,
            as in `open_corpus`; `weight`, how often a pass reads each of its
            pairs (default: 1); and `tag`, such as `<bt>` or `>>fra<<`, which
            is prepended to its sources. Separate several tags by spaces, and
            begin with the language. Only `data` is required.
        source: Source language of entries without one.
        target: Target language of entries without one.

    Raises:
        InputError: If an entry is invalid, or the entries do not fit together.
    """
    parts = []
    for entry in entries:
        if not isinstance(entry, CorpusEntry):
            entry = CorpusEntry(**entry)
        corpus = open_corpus(
            entry.data,
            entry.source or source,
            entry.target or target,
            entry.columns,
        )
        is_prepared = isinstance(corpus, prepared.PreparedCorpus)
        if is_prepared or corpus.task.name != TranslationTask.name:
            raise InputError(
                "Only corpora of texts can be combined. Received: "
                f"{corpus.name}, which is prepared, or a treebank"
            )
        (part,) = corpus.parts
        part = dataclasses.replace(part, weight=entry.weight, tag=entry.tag)
        parts.append(part)
    languages = {part.language for part in parts}
    targets = {part.target for part in parts} - {None}
    if None in languages and (len(languages) > 2 or len(targets) > 1):
        received = (f"{x} to {x.target or 'unknown'}" for x in parts)
        raise InputError(
            "With several target languages, the tag of each corpus must begin "
            f"with its own, such as >>fra<<. Received: {', '.join(received)}"
        )
    name = " + ".join(map(str, parts))
    return Corpus(name, TranslationTask(), parts)
