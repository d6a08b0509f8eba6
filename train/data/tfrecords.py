"""Corpora in TFRecord files of `tf.train.Example`."""

import collections
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from keras_transformer.support.errors import InputError
from keras_transformer.train.data import reading

if TYPE_CHECKING:
    import tensorflow as tf

_SPLIT = "|".join(reading.SPLITS)
# train.tfrecord, train-00000-of-00008.tfrecord and, from TensorFlow Datasets,
# train.tfrecord-00000-of-00008.
FILE_NAME = re.compile(rf"({_SPLIT}).*\.tfrecord(-\d+-of-\d+)?")
_NUMBERED_NAME = re.compile(r"(.*)-\d+-of-(\d+)(\.tfrecord)?")

# Bytes that frame a record in a file: its length and two checksums.
_FRAMING = 8 + 4 + 4


class TFRecordFiles(reading.Split):
    """Files of `tf.train.Example` with one bytes value per feature."""

    def read(self) -> Iterator[tuple[str, str]]:
        for path in self.paths:
            for number, record in enumerate(_read_records(path), start=1):
                yield self._parse(record, f"{path}, record {number}")

    def _parse(self, record: bytes, place: str) -> tuple[str, str]:
        import tensorflow as tf
        from google.protobuf.message import DecodeError

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
        return reading.decode_pair([texts[0] for texts in values], place)


def open_folder(
    folder: str, names: Sequence[str], source: str | None, target: str | None
) -> dict[str, TFRecordFiles]:
    """Returns the splits that TFRecord files of a folder form, in this order.

    `source` and `target` are features.
    """
    if not source or not target:
        raise InputError(
            "A folder of TFRecord files needs the names of the features that "
            f"hold source and target. Received: {folder} with "
            f"source={source!r}, target={target!r}"
        )
    splits = {}
    for split in reading.SPLITS:
        own = [name for name in names if name.startswith(split)]
        paths = [os.path.join(folder, name) for name in own]
        _check_numbered_files(paths)
        if paths:
            name = f"{folder}, split {split}"
            splits[split] = TFRecordFiles(name, paths, (source, target))
    return splits


def _check_numbered_files(paths: Sequence[str]) -> None:
    """Raises if a file of a series such as `-00000-of-00008` is missing."""
    matches = filter(None, map(_NUMBERED_NAME.fullmatch, paths))
    series = collections.Counter(match.groups("") for match in matches)
    for (name, expected, suffix), count in series.items():
        if count != int(expected):
            raise InputError(
                "Numbered TFRecord files must be complete. Received: "
                f"{count} of {name}-*-of-{expected}{suffix}"
            )


def _read_records(path: str) -> Iterator[bytes]:
    """Yields the records of a TFRecord file and raises if one is damaged."""
    import tensorflow as tf

    reading.open_file(path).close()  # a clear message if it cannot be read
    # It ends at a damaged record, and at a truncated header in any case.
    dataset = tf.data.TFRecordDataset(path).ignore_errors()
    batches = reading.without_tuning(dataset.batch(reading.READ_BATCH))
    number = size = 0
    for records in batches.as_numpy_iterator():
        yield from records
        number += len(records)
        size += sum(len(record) + _FRAMING for record in records)
    if size != os.path.getsize(path):
        raise InputError(
            "A TFRecord file must be complete and not compressed. Received: "
            f"{path}, record {number + 1}, which is damaged"
        )


def _describe(features: Mapping[str, "tf.train.Feature"]) -> str:
    """Returns the features with the number and type of their values."""
    descriptions = []
    for name, feature in sorted(features.items()):
        list_name = feature.WhichOneof("kind") or "bytes_list"
        size = len(getattr(feature, list_name).value)
        value_type = list_name.removesuffix("_list")
        descriptions.append(f"{name} ({size} {value_type})")
    return ", ".join(descriptions) or "no features"
