"""Splits of a corpus that are records: TFRecord files and TFDS.

`Corpus` in sources.py says what each class here provides.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import tensorflow as tf
from google.protobuf.message import DecodeError

from keras_transformer.errors import InputError
from keras_transformer.train.data.parallel import CHUNK

if TYPE_CHECKING:
    import tensorflow_datasets as tfds


class TFRecordFiles:
    """Files of `tf.train.Example`, read one after the other.

    Args:
        name: What messages call the split.
        paths: Paths of the files, in the order in which they are read.
        source: Name of the feature that holds the source, one bytes value.
        target: Name of the feature that holds the target, likewise.
    """

    def __init__(
        self, name: str, paths: Sequence[str], source: str, target: str
    ) -> None:
        self.name = name
        self._paths = list(paths)
        self._features = (source, target)

    def dataset(self, index: int, count: int) -> tf.data.Dataset:
        """Returns the pairs of every `count`-th file, from `index` on.

        If there are fewer than `count` files, every `count`-th pair.
        """
        text = tf.io.FixedLenFeature([], tf.string)
        wanted = {name: text for name in self._features}

        def parse(records: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            # [N] each.
            examples = tf.io.parse_example(records, wanted)
            return tuple(examples[name] for name in self._features)

        if len(self._paths) >= count:
            # A worker with files of its own need not read the others'.
            records = tf.data.TFRecordDataset(self._paths[index::count])
        else:
            records = tf.data.TFRecordDataset(self._paths).shard(count, index)
        return records.batch(CHUNK).map(parse).unbatch()

    def read(self) -> Iterator[tuple[str, str]]:
        """Yields the pairs.

        Raises:
            InputError: If a file cannot be read, a record is damaged or
                lacks a feature, or a text is not UTF-8.
        """
        for path in self._paths:
            for number, record in enumerate(_records(path), start=1):
                yield self._pair(record, f"{path}, record {number}")

    def _pair(self, record: bytes, place: str) -> tuple[str, str]:
        try:
            features = tf.train.Example.FromString(record).features.feature
        except DecodeError:
            features = {}
        sides = [
            features[name].bytes_list.value if name in features else ()
            for name in self._features
        ]
        if any(len(values) != 1 for values in sides):
            raise InputError(
                "A record of a corpus must be a tf.train.Example with one "
                f"bytes value in each of {' and '.join(self._features)}. "
                f"Received: {place}, with {_described(features)}"
            )
        return _decoded([values[0] for values in sides], place)


class TFDSSplit:
    """A split of a dataset of TensorFlow Datasets that is prepared.

    Args:
        name: What messages call the split.
        builder: The dataset's builder.
        split: The split's name there.
        source: Name of the feature that holds the source.
        target: Name of the feature that holds the target.
    """

    def __init__(
        self,
        name: str,
        builder: "tfds.core.DatasetBuilder",
        split: str,
        source: str,
        target: str,
    ) -> None:
        self.name = name
        self._builder = builder
        self._split = split
        self._features = (source, target)

    def dataset(self, index: int, count: int) -> tf.data.Dataset:
        """Returns part `index` of `count` equal parts of the split.

        If there are fewer than `count` pairs, every `count`-th of them.
        """
        import tensorflow_datasets as tfds

        if self._builder.info.splits[self._split].num_examples >= count:
            # A worker reads nothing of the others' parts.
            part = tfds.even_splits(self._split, count)[index]
            return self._pairs(part)
        # TFDS refuses a part that is empty.
        return self._pairs(self._split).shard(count, index)

    def read(self) -> Iterator[tuple[str, str]]:
        """Yields the pairs.

        Raises:
            InputError: If a text is not UTF-8.
        """
        chunks = self._pairs(self._split).batch(CHUNK).as_numpy_iterator()
        pairs = (pair for sides in chunks for pair in zip(*sides, strict=True))
        for number, pair in enumerate(pairs, start=1):
            yield _decoded(pair, f"{self.name}, pair {number}")

    def _pairs(self, part: object) -> tf.data.Dataset:
        import tensorflow_datasets as tfds

        # One file at a time, so that the order is that of the files; and
        # none of it stays in memory.
        in_order = tfds.ReadConfig(
            interleave_cycle_length=1, try_autocache=False
        )
        examples = self._builder.as_dataset(
            split=part, shuffle_files=False, read_config=in_order
        )
        return examples.map(
            lambda example: tuple(example[name] for name in self._features)
        )


def open_tfds(
    name: str, source: str | None, target: str | None
) -> dict[str, TFDSSplit]:
    """Returns the splits of a dataset, which is downloaded if need be.

    Args:
        name: `NAME/CONFIG`, as TensorFlow Datasets calls it.
        source: Language code of the source, the name of a feature.
        target: Language code of the target, likewise.

    Returns:
        The splits by name, `"validation"` under `"valid"`.

    Raises:
        InputError: If the package, the dataset or a language is missing.
    """
    try:
        return _tfds_splits(name, source, target)
    except ImportError as error:
        raise InputError(
            f"tfds:{name} needs the package {error.name}, which is not "
            'installed. Run pip install "keras-transformer-nmt[tfds]"'
        ) from error


def _tfds_splits(
    name: str, source: str | None, target: str | None
) -> dict[str, TFDSSplit]:
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
    splits = {}
    for split in builder.info.splits:
        ours = "valid" if split == "validation" else split
        splits[ours] = TFDSSplit(
            f"tfds:{name}, split {ours}", builder, split, source, target
        )
    return splits


def _records(path: str) -> Iterator[bytes]:
    """Yields the records of a TFRecord file."""
    try:
        # Python's error is clearer than that of the dataset.
        open(path, "rb").close()
    except OSError as error:
        raise InputError(
            "A file of the corpus cannot be read. Received: "
            f"{path} ({error.strerror})"
        ) from error
    dataset = tf.data.TFRecordDataset(path)
    number = size = 0
    try:
        for chunk in dataset.batch(CHUNK).as_numpy_iterator():
            yield from chunk
            number += len(chunk)
            # With its length, 8 bytes, and two checksums of 4 bytes each.
            size += sum(len(record) + 16 for record in chunk)
        # TensorFlow passes over a header that is cut off.
        whole = size == os.path.getsize(path)
    except tf.errors.DataLossError:
        whole = False
        # The records before the damage are lost with their chunk.
        for record in dataset.skip(number).ignore_errors().as_numpy_iterator():
            yield record
            number += 1
    if not whole:
        raise InputError(
            "A TFRecord file must be whole and not compressed. Received: "
            f"{path}, record {number + 1}, which is damaged"
        )


def _described(features: Mapping[str, tf.train.Feature]) -> str:
    """Returns the features with the number and type of their values."""
    described = []
    for name in sorted(features):
        kind = features[name].WhichOneof("kind") or "bytes_list"
        values = getattr(features[name], kind).value
        described.append(f"{name} ({len(values)} {kind.removesuffix('_list')})")
    return ", ".join(described) or "no features"


def _decoded(pair: Sequence[bytes], place: str) -> tuple[str, str]:
    try:
        source, target = (side.decode("utf-8") for side in pair)
    except UnicodeDecodeError as error:
        raise InputError(
            f"A corpus must be UTF-8 text. Received: {place}: {error.reason}"
        ) from None
    return source, target
