"""Parallel corpora: pairs of texts from files, folders and TFDS."""

import abc
import itertools
import os
from collections.abc import Iterator, Sequence

import tensorflow as tf

from keras_transformer.errors import InputError

SPLITS = ("train", "valid", "test")

_FORMS = """\
  embedded               the small English-German corpus that comes along
  FOLDER                 {train,valid,test}.SOURCE and .TARGET, a text a line
  SOURCE_FILE TARGET_FILE  two files, a text a line
  FILE.tsv               source, tab, target on a line
  tfds:NAME/CONFIG       a translation dataset of TensorFlow Datasets"""


class Corpus(abc.ABC):
    """Pairs of texts in one or more splits; made by `open_corpus`.

    Nothing is kept in memory: each call reads the files anew.

    Attributes:
        name: What the user calls it: the `data` of `open_corpus`.
        splits: Names of the splits there are: `"train"`, `"valid"`,
            `"test"`, and with TFDS whatever else the dataset has.
        source: Language code of the source, or None if files have none.
        target: Language code of the target, or None.
    """

    def __init__(
        self,
        name: str,
        splits: Sequence[str],
        source: str | None,
        target: str | None,
    ) -> None:
        self.name = name
        self.splits = tuple(splits)
        self.source = source
        self.target = target

    def pairs(self, split: str) -> tf.data.Dataset:
        """Returns the (source, target) scalar strings, in file order.

        Of sides of different length the rest is left out: `check` first.

        Raises:
            InputError: If there is no such split.
        """
        self._require(split)
        return self._dataset(split)

    def check(self, split: str) -> int:
        """Reads a split once and returns its number of pairs.

        Raises:
            InputError: If there is no such split, a file is missing, has
                bytes that are not UTF-8 or a line without a target, if the
                sides differ in length, or if there are no pairs at all.
        """
        self._require(split)
        pairs = sum(1 for _ in self._read(split))
        if not pairs:
            raise InputError(
                f"A corpus must have pairs. Received: {self._name(split)}, "
                "which is empty."
            )
        return pairs

    def texts(self, split: str) -> Iterator[str]:
        """Yields source and target of each pair; raises as `check` does."""
        self._require(split)
        return itertools.chain.from_iterable(self._read(split))

    def _require(self, split: str) -> None:
        if split not in self.splits:
            raise InputError(
                f"The corpus has the splits {', '.join(self.splits)}. "
                f"Received: split={split!r}"
            )

    # What a form of corpus defines: its name in messages, the pairs as a
    # dataset, and the same pairs in Python with every fault reported.

    @abc.abstractmethod
    def _name(self, split: str) -> str: ...

    @abc.abstractmethod
    def _dataset(self, split: str) -> tf.data.Dataset: ...

    @abc.abstractmethod
    def _read(self, split: str) -> Iterator[tuple[str, str]]: ...


def open_corpus(
    data: Sequence[str], source: str | None = None, target: str | None = None
) -> Corpus:
    """Returns the corpus that a user names.

    Args:
        data: One of:
            `["embedded"]`, the English-German corpus that comes along;
            `[FOLDER]` with files such as `train.en` and `train.de`;
            `[SOURCE_FILE, TARGET_FILE]` or `[FILE.tsv]`, which have one
            split, `"train"`;
            `["tfds:NAME/CONFIG"]`, a dataset of TensorFlow Datasets with a
            text feature per language, e.g. `tfds:wmt14_translate/de-en`. It
            is downloaded unless it is under `TFDS_DATA_DIR`. Its split
            `"validation"` is called `"valid"` here.
            Lines end in LF or CR LF.
        source: Language code of the source: the ending of the files in a
            folder, the feature of a TFDS dataset. Not needed otherwise.
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
        files = {"train": tuple(data)}
        return _LineFiles(" ".join(data), files, source, target)
    if len(data) != 1 or not data[0]:
        raise InputError(
            f"The data must be one of\n{_FORMS}\nReceived: {list(data)}"
        )
    (name,) = data
    if name == "embedded":
        return _embedded(source, target)
    if name.startswith("tfds:"):
        return _tfds(name.removeprefix("tfds:"), source, target)
    if os.path.isdir(name):
        return _folder(name, source, target)
    _require_file(name)
    if not name.endswith(".tsv"):
        raise InputError(
            "One file must be a .tsv file with source, tab, target on each "
            f"line. Received: {name}. Give the file of the other language "
            "too."
        )
    return _Tsv(name, source, target)


# === Files ===


class _LineFiles(Corpus):
    """Two files a split, line N of one translating line N of the other."""

    def __init__(
        self,
        name: str,
        files: dict[str, tuple[str, str]],
        source: str | None,
        target: str | None,
    ) -> None:
        super().__init__(name, list(files), source, target)
        self._files = files

    def _name(self, split: str) -> str:
        return " and ".join(self._files[split])

    def _dataset(self, split: str) -> tf.data.Dataset:
        sides = map(tf.data.TextLineDataset, self._files[split])
        return tf.data.Dataset.zip(tuple(sides))

    def _read(self, split: str) -> Iterator[tuple[str, str]]:
        sides = [_lines(path) for path in self._files[split]]
        for number, pair in enumerate(itertools.zip_longest(*sides)):
            if None in pair:
                rest = 1 + sum(1 for side in sides for _ in side)
                counts = [number + (side is not None) * rest for side in pair]
                raise InputError(
                    "Both sides of a corpus must have the same number of "
                    "lines. Received: "
                    + ", ".join(
                        f"{path} with {count} lines"
                        for path, count in zip(
                            self._files[split], counts, strict=True
                        )
                    )
                )
            yield pair


class _Tsv(Corpus):
    """One file with source and target in the first two columns."""

    def __init__(
        self, path: str, source: str | None, target: str | None
    ) -> None:
        super().__init__(path, ["train"], source, target)

    def _name(self, split: str) -> str:
        return self.name

    def _dataset(self, split: str) -> tf.data.Dataset:
        def columns(lines: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            # [N, 2]
            both = tf.strings.split(lines, "\t").to_tensor("", shape=[None, 2])
            return both[:, 0], both[:, 1]

        lines = tf.data.TextLineDataset(self.name)
        return lines.batch(1024).map(columns).unbatch()

    def _read(self, split: str) -> Iterator[tuple[str, str]]:
        for number, line in enumerate(_lines(self.name), start=1):
            columns = line.split("\t")
            if len(columns) < 2:
                raise InputError(
                    "A line of a .tsv corpus must be source, tab, target. "
                    f"Received: {self.name}, line {number}, without a tab"
                )
            yield columns[0], columns[1]


def _folder(folder: str, source: str | None, target: str | None) -> Corpus:
    """Returns the corpus of the files `SPLIT.LANGUAGE` in a folder."""
    endings = sorted(
        {
            name.partition(".")[2]
            for name in os.listdir(folder)
            if name.partition(".")[0] in SPLITS
        }
    )
    found = f"There are files for: {', '.join(endings) or 'no language'}"
    if not source or not target:
        raise InputError(
            "A folder needs the language codes of source and target, which "
            f"its files end in. Received: {folder} with source={source!r}, "
            f"target={target!r}. {found}"
        )
    files = {}
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
            files[split] = tuple(sides)
    if not files:
        raise InputError(
            f"A folder must have train.{source} and train.{target}, or the "
            f"same of valid or test. Received: {folder}. {found}"
        )
    return _LineFiles(folder, files, source, target)


def _require_file(path: str) -> None:
    if not os.path.isfile(path):
        kind = "is a folder" if os.path.isdir(path) else "there is none"
        raise InputError(
            f"A file of a corpus must be a file: {kind}. Received: {path}. "
            f"The data can be one of\n{_FORMS}"
        )


def _lines(path: str) -> Iterator[str]:
    """Yields the lines of a file as `TextLineDataset` splits them."""
    try:
        file = open(path, "rb")
    except OSError as error:
        raise InputError(
            "A file of the corpus cannot be read. Received: "
            f"{path} ({error.strerror})"
        ) from error
    with file:
        for number, line in enumerate(file, start=1):
            try:
                # TextLineDataset leaves out every CR, wherever it is.
                yield line.rstrip(b"\n").replace(b"\r", b"").decode("utf-8")
            except UnicodeDecodeError as error:
                raise InputError(
                    "A corpus must be UTF-8 text. Received: "
                    f"{path}, line {number}: {error.reason} at byte "
                    f"{error.start} of the line. Convert it, for example "
                    "with iconv -f latin1 -t utf-8."
                ) from None


# === Other forms ===


class _Datasets(Corpus):
    """Splits that are datasets of two strings already."""

    def __init__(
        self,
        name: str,
        datasets: dict[str, tf.data.Dataset],
        source: str,
        target: str,
    ) -> None:
        super().__init__(name, list(datasets), source, target)
        self._datasets = datasets

    def _name(self, split: str) -> str:
        return f"{self.name}, split {split}"

    def _dataset(self, split: str) -> tf.data.Dataset:
        return self._datasets[split]

    def _read(self, split: str) -> Iterator[tuple[str, str]]:
        dataset = self._datasets[split].as_numpy_iterator()
        for number, pair in enumerate(dataset, start=1):
            try:
                yield tuple(side.decode("utf-8") for side in pair)
            except UnicodeDecodeError as error:
                raise InputError(
                    "A corpus must be UTF-8 text. Received: "
                    f"{self._name(split)}, pair {number}: {error.reason}"
                ) from None


def _embedded(source: str | None, target: str | None) -> Corpus:
    """Returns the corpus that comes with the library."""
    from keras_transformer.text import corpus

    other = {"en": "de", "de": "en"}
    source = source or other.get(target, "en")
    target = target or other.get(source, "de")
    if other.get(source) != target:
        raise InputError(
            "The embedded corpus is English and German. Received: "
            f"source={source!r}, target={target!r}; use en and de."
        )

    def dataset(split: str) -> tf.data.Dataset:
        english, german = zip(*corpus.load(split), strict=True)
        sides = {"en": list(english), "de": list(german)}
        return tf.data.Dataset.from_tensor_slices(
            (sides[source], sides[target])
        )

    datasets = {split: dataset(split) for split in SPLITS}
    return _Datasets("embedded", datasets, source, target)


def _tfds(name: str, source: str | None, target: str | None) -> Corpus:
    """Returns a dataset of TensorFlow Datasets, downloaded if need be."""
    try:
        datasets = _tfds_splits(name, source, target)
    except ImportError as error:
        raise InputError(
            f"tfds:{name} needs the package {error.name}, which is not "
            'installed. Run pip install "keras-transformer-nmt[tfds]"'
        ) from error
    return _Datasets(f"tfds:{name}", datasets, source, target)


def _tfds_splits(
    name: str, source: str | None, target: str | None
) -> dict[str, tf.data.Dataset]:
    import tensorflow_datasets as tfds

    try:
        builder = tfds.builder(name, data_dir=os.environ.get("TFDS_DATA_DIR"))
    except ValueError as error:
        # The rest of the message lists every dataset there is.
        reason = str(error).split("\n", 1)[0]
        raise InputError(
            "tfds: must be followed by a dataset of TensorFlow Datasets and "
            "its configuration, such as tfds:wmt14_translate/de-en. "
            f"Received: tfds:{name} ({reason})"
        ) from error
    # Features that are not a dictionary have no languages.
    languages = sorted(getattr(builder.info.features, "keys", list)())
    if source not in languages or target not in languages:
        raise InputError(
            f"source and target must be features of tfds:{name}: "
            f"{', '.join(languages)}. Received: source={source!r}, "
            f"target={target!r}"
        )
    builder.download_and_prepare()
    # One file at a time, so that the order is that of the files.
    in_order = tfds.ReadConfig(interleave_cycle_length=1)
    return {
        "valid" if split == "validation" else split: builder.as_dataset(
            split=split, shuffle_files=False, read_config=in_order
        ).map(lambda example: (example[source], example[target]))
        for split in builder.info.splits
    }
