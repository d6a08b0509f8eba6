"""Parallel corpora: pairs of texts from files, folders and TFDS.

The forms that a corpus is stored in are in text_files.py and tfrecords.py.
"""

import collections
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import tensorflow as tf

from keras_transformer.errors import InputError
from keras_transformer.train.data import text_files, tfrecords

SPLITS = ("train", "valid", "test")

# train.tfrecord, train-00000-of-00008.tfrecord and, from TensorFlow Datasets,
# train.tfrecord-00000-of-00008.
_TFRECORD = re.compile(rf"({'|'.join(SPLITS)}).*\.tfrecord(-\d+-of-\d+)?")
_NUMBERED = re.compile(r"(.*)-\d+-of-(\d+)(\.tfrecord)?")

_FORMS = """\
  embedded               the small English-German corpus that comes along
  FOLDER                 {train,valid,test}.SOURCE and .TARGET, a text a line,
                         or {train,valid,test}*.tfrecord of tf.train.Example
  SOURCE_FILE TARGET_FILE  two files, a text a line
  FILE.tsv               source, tab, target on a line
  tfds:NAME/CONFIG       a translation dataset of TensorFlow Datasets"""


class Split(Protocol):
    """One split of a corpus, in the form in which it is stored.

    Attributes:
        name: What messages call it.
    """

    name: str

    def dataset(self, index: int, count: int) -> tf.data.Dataset:
        """Returns shard `index` of `count` of the pairs, unchecked."""

    def read(self) -> Iterator[tuple[str, str]]:
        """Yields the pairs and raises `InputError` at the first fault."""


class Corpus:
    """Pairs of texts in one or more splits; made by `open_corpus`.

    Files are streamed, and each call reads them anew; of all forms only the
    embedded corpus is in memory.

    Args:
        name: What the user calls it: the `data` of `open_corpus`.
        splits: The splits by name: `"train"`, `"valid"`, `"test"`, and with
            TFDS whatever else the dataset has.
        source: Language code of the source, or None if files have none.
        target: Language code of the target, or None.

    Attributes:
        splits: Names of the splits.
    """

    def __init__(
        self,
        name: str,
        splits: Mapping[str, Split],
        source: str | None,
        target: str | None,
    ) -> None:
        self.name = name
        self.splits = tuple(splits)
        self.source = source
        self.target = target
        self._splits = dict(splits)

    def pairs(
        self, split: str, shard: tuple[int, int] = (0, 1)
    ) -> tf.data.Dataset:
        """Returns the (source, target) scalar strings, in file order.

        Nothing is checked here: `check` first. Of sides of different length
        the rest is left out.

        Args:
            split: Name of the split.
            shard: `(index, count)`: worker `index` of `count` workers, from
                0 on, gets its share of the pairs. The shards of a split are
                disjoint and together are the split. A shard is every
                `count`-th pair; of TFRecords every `count`-th file if there
                are at least `count` files; of TFDS one of `count` pieces.

        Raises:
            InputError: If there is no such split or shard.
        """
        match shard:
            case (int(index), int(count)) if 0 <= index < count:
                return self._split(split).dataset(index, count)
        raise InputError(
            "shard must be (index, count) with 0 <= index < count. "
            f"Received: shard={shard!r}"
        )

    def check(self, split: str) -> int:
        """Reads a split once and returns its number of pairs.

        Raises:
            InputError: If there is no such split, a file is missing or
                damaged, a text is not UTF-8 or has no counterpart, or if
                there are no pairs at all.
        """
        chosen = self._split(split)
        pairs = sum(1 for _ in chosen.read())
        if not pairs:
            raise InputError(
                f"A corpus must have pairs. Received: {chosen.name}, "
                "which is empty."
            )
        return pairs

    def texts(self, split: str) -> Iterator[str]:
        """Yields source and target of each pair; raises as `check` does."""
        return itertools.chain.from_iterable(self._split(split).read())

    def _split(self, split: str) -> Split:
        if split not in self.splits:
            raise InputError(
                f"The corpus has the splits {', '.join(self.splits)}. "
                f"Received: split={split!r}"
            )
        return self._splits[split]


def open_corpus(
    data: Sequence[str], source: str | None = None, target: str | None = None
) -> Corpus:
    """Returns the corpus that a user names.

    Args:
        data: One of:
            `["embedded"]`, the English-German corpus that comes along;
            `[FOLDER]` with files such as `train.en` and `train.de`;
            `[FOLDER]` with TFRecord files of `tf.train.Example`, such as
            `train.tfrecord` or `train-00000-of-00008.tfrecord`, with one
            bytes feature per language. They are read in the order of their
            names and must not be compressed;
            `[SOURCE_FILE, TARGET_FILE]` or `[FILE.tsv]`, which have one
            split, `"train"`;
            `["tfds:NAME/CONFIG"]`, a dataset of TensorFlow Datasets with a
            text feature per language, e.g. `tfds:wmt14_translate/de-en`. It
            is downloaded unless it is under `TFDS_DATA_DIR`. Its split
            `"validation"` is called `"valid"` here.
            Lines end in LF or CR LF.
        source: Language code of the source: the ending of the files in a
            folder, the feature of TFRecords and of a TFDS dataset. Not
            needed otherwise.
        target: Language code of the target, likewise.

    Raises:
        InputError: If `data` has none of these forms, or files, languages
            or the package for TFDS are missing.
    """
    data = [data] if isinstance(data, str) else list(map(os.fspath, data))
    if source is not None and source == target:
        raise InputError(
            "source and target must be different languages. Received: "
            f"source={source!r}, target={target!r}"
        )
    if len(data) == 2:
        for path in data:
            _require_file(path)
        endings = [os.path.splitext(path)[1].removeprefix(".") for path in data]
        if source and target and endings == [target, source]:
            raise InputError(
                "The file of the source comes first, then that of the "
                f"target. Received: {' '.join(data)} with source={source!r}, "
                f"target={target!r}"
            )
        splits = {"train": text_files.LineFiles(*data)}
        return Corpus(" ".join(data), splits, source, target)
    if len(data) != 1 or not data[0]:
        raise InputError(
            f"The data must be one of\n{_FORMS}\nReceived: {list(data)}"
        )
    (name,) = data
    if name == "embedded":
        return _embedded(source, target)
    if name.startswith("tfds:"):
        splits = tfrecords.open_tfds(name.removeprefix("tfds:"), source, target)
        return Corpus(name, splits, source, target)
    if os.path.isdir(name):
        return _folder(name, source, target)
    _require_file(name)
    if not name.endswith(".tsv"):
        raise InputError(
            "One file must be a .tsv file with source, tab, target on each "
            f"line. Received: {name}. Give the file of the other language "
            "too."
        )
    return Corpus(name, {"train": text_files.Tsv(name)}, source, target)


def _embedded(source: str | None, target: str | None) -> Corpus:
    """Returns the bundled corpus, an ordinary folder of text files."""
    other = {"en": "de", "de": "en"}
    source = source or other.get(target, "en")
    target = target or other.get(source, "de")
    if other.get(source) != target:
        raise InputError(
            "The bundled corpus is English and German. Received: "
            f"source={source!r}, target={target!r}; use en and de."
        )
    folder = os.path.join(os.path.dirname(__file__), "demo")
    return _folder(folder, source, target, name="embedded")


def _folder(
    folder: str,
    source: str | None,
    target: str | None,
    name: str | None = None,
) -> Corpus:
    """Returns the corpus of the text files or the TFRecords in a folder."""
    names = sorted(os.listdir(folder))
    records = [name for name in names if _TFRECORD.fullmatch(name)]
    texts = [
        name
        for name in names
        if name.partition(".")[0] in SPLITS and name not in records
    ]
    if records and texts:
        raise InputError(
            "A folder must have either text files or TFRecord files. "
            f"Received: {folder} with {texts[0]} and {records[0]}"
        )
    if records:
        return _tfrecord_folder(folder, records, source, target)
    return _text_folder(folder, texts, source, target, name or folder)


def _tfrecord_folder(
    folder: str, names: Sequence[str], source: str | None, target: str | None
) -> Corpus:
    """Returns the corpus of the TFRecord files `names` in a folder."""
    if not source or not target:
        raise InputError(
            "A folder of TFRecord files needs the names of the features that "
            f"hold source and target. Received: {folder} with "
            f"source={source!r}, target={target!r}"
        )
    splits = {}
    for split in SPLITS:
        paths = [
            os.path.join(folder, name)
            for name in names
            if name.startswith(split)
        ]
        _require_all_of(paths)
        if paths:
            splits[split] = tfrecords.TFRecordFiles(
                f"{folder}, split {split}", paths, source, target
            )
    return Corpus(folder, splits, source, target)


def _require_all_of(paths: Sequence[str]) -> None:
    """Refuses fewer files than a name such as `-00000-of-00008` tells of."""
    numbered = filter(None, map(_NUMBERED.fullmatch, paths))
    found = collections.Counter(match.groups("") for match in numbered)
    for (name, count, ending), there in found.items():
        if there != int(count):
            raise InputError(
                "Of TFRecord files that are numbered all must be there. "
                f"Received: {there} of {name}-*-of-{count}{ending}"
            )


def _text_folder(
    folder: str,
    names: Sequence[str],
    source: str | None,
    target: str | None,
    name: str,
) -> Corpus:
    """Returns the corpus of the files `SPLIT.LANGUAGE` in a folder."""
    endings = sorted({name.partition(".")[2] for name in names})
    found = f"There are files for: {', '.join(endings) or 'no language'}"
    if not source or not target:
        raise InputError(
            "A folder needs the language codes of source and target, which "
            f"its files end in. Received: {folder} with source={source!r}, "
            f"target={target!r}. {found}"
        )
    splits = {}
    for split in SPLITS:
        sides = [
            os.path.join(folder, f"{split}.{code}") for code in (source, target)
        ]
        missing = [path for path in sides if not os.path.isfile(path)]
        if len(missing) == 1:
            (there,) = set(sides) - set(missing)
            raise InputError(
                f"A split needs both sides. Received: {there} without "
                f"{missing[0]}. {found}"
            )
        if not missing:
            splits[split] = text_files.LineFiles(*sides)
    if not splits:
        raise InputError(
            f"A folder must have train.{source} and train.{target}, or the "
            f"same of valid or test. Received: {folder}. {found}"
        )
    return Corpus(name, splits, source, target)


def _require_file(path: str) -> None:
    if not os.path.isfile(path):
        kind = "is a folder" if os.path.isdir(path) else "there is none"
        raise InputError(
            f"A file of a corpus must be a file: {kind}. Received: {path}. "
            f"The data can be one of\n{_FORMS}"
        )
