"""Corpora in TFRecord files of `tf.train.Example`."""

import collections
import os
import re
from collections.abc import Iterator, Mapping, Sequence

import tensorflow as tf
from google.protobuf.message import DecodeError

from keras_transformer.support.errors import InputError
from keras_transformer.train.data.reading import (
    READ_BATCH,
    SPLITS,
    Split,
    decode_pair,
    open_file,
    without_tuning,
)

# train.tfrecord, train-00000-of-00008.tfrecord and, from TensorFlow Datasets,
# train.tfrecord-00000-of-00008.
_FILE_NAME = re.compile(rf"({'|'.join(SPLITS)}).*\.tfrecord(-\d+-of-\d+)?")
_NUMBERED_NAME = re.compile(r"(.*)-\d+-of-(\d+)(\.tfrecord)?")

# Bytes that frame a record in a file: its length and two checksums.
_FRAMING = 8 + 4 + 4


class TFRecordFiles(Split):
    """Files of `tf.train.Example`, read one after the other.

    Args:
        name: Name of the split in messages.
        paths: Paths of the files, in reading order.
        source: Name of the feature that holds the source, one bytes value.
        target: Name of the feature that holds the target, likewise.
    """

    def __init__(
        self, name: str, paths: Sequence[str], source: str, target: str
    ) -> None:
        super().__init__(name, paths, (source, target))

    def read(self) -> Iterator[tuple[str, str]]:
        for path in self.paths:
            for number, record in enumerate(_read_records(path), start=1):
                yield self._parse(record, f"{path}, record {number}")

    def _parse(self, record: bytes, place: str) -> tuple[str, str]:
        try:
            features = tf.train.Example.FromString(record).features.feature
        except DecodeError:
            features = {}
        values = [
            features[name].bytes_list.value if name in features else ()
            for name in self.features
        ]
        if any(len(texts) != 1 for texts in values):
            raise InputError(
                "A record of a corpus must be a tf.train.Example with one "
                f"bytes value in each of {' and '.join(self.features)}. "
                f"Received: {place}, with {_describe(features)}"
            )
        return decode_pair([texts[0] for texts in values], place)


def is_tfrecord(name: str) -> bool:
    """Returns whether a file name is that of a split in TFRecord files."""
    return _FILE_NAME.fullmatch(name) is not None


def open_folder(
    folder: str, names: Sequence[str], source: str | None, target: str | None
) -> dict[str, TFRecordFiles]:
    """Returns the splits that the TFRecord files of a folder form.

    `names` are those of the files, in reading order; `source` and `target`
    those of the features.
    """
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
        _check_numbered_files(paths)
        if paths:
            splits[split] = TFRecordFiles(
                f"{folder}, split {split}", paths, source, target
            )
    return splits


def _check_numbered_files(paths: Sequence[str]) -> None:
    """Raises if a file of a series such as `-00000-of-00008` is missing."""
    series = collections.Counter()
    for path in paths:
        match = _NUMBERED_NAME.fullmatch(path)
        if match:
            series[match.groups(default="")] += 1
    for (name, expected, suffix), found in series.items():
        if found != int(expected):
            raise InputError(
                "Numbered TFRecord files must be complete. Received: "
                f"{found} of {name}-*-of-{expected}{suffix}"
            )


def _read_records(path: str) -> Iterator[bytes]:
    """Yields the records of a TFRecord file and raises if one is damaged."""
    # Fails with a clearer message than the dataset.
    open_file(path).close()
    dataset = without_tuning(tf.data.TFRecordDataset(path))
    number = size = 0
    try:
        for records in dataset.batch(READ_BATCH).as_numpy_iterator():
            yield from records
            number += len(records)
            size += sum(len(record) + _FRAMING for record in records)
        # TensorFlow ignores a truncated header at the end of the file.
        complete = size == os.path.getsize(path)
    except tf.errors.DataLossError:
        complete = False
        # The batch with the damaged record is lost; its first records are not.
        for record in dataset.skip(number).ignore_errors().as_numpy_iterator():
            yield record
            number += 1
    if not complete:
        raise InputError(
            "A TFRecord file must be complete and not compressed. Received: "
            f"{path}, record {number + 1}, which is damaged"
        )


def _describe(features: Mapping[str, tf.train.Feature]) -> str:
    """Returns the features with the number and type of their values."""
    descriptions = []
    for name in sorted(features):
        kind = features[name].WhichOneof("kind") or "bytes_list"
        values = getattr(features[name], kind).value
        descriptions.append(
            f"{name} ({len(values)} {kind.removesuffix('_list')})"
        )
    return ", ".join(descriptions) or "no features"
