"""Corpora of TensorFlow Datasets."""

import hashlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from keras_transformer.support.errors import InputError
from keras_transformer.train.data.reading import (
    READ_BATCH,
    Split,
    decode_pair,
    without_tuning,
)

if TYPE_CHECKING:
    import tensorflow_datasets as tfds


class TFDSSplit(Split):
    """The split of a dataset of TensorFlow Datasets, which is downloaded."""

    def __init__(
        self,
        name: str,
        builder: "tfds.core.DatasetBuilder",
        split: str,
        source: str,
        target: str,
    ) -> None:
        super().__init__(name, [], (source, target))
        self._builder = builder
        self._split = split

    def read(self) -> Iterator[tuple[str, str]]:
        import tensorflow_datasets as tfds

        # One file at a time, in the order of the files. Without a cache, which
        # would stay in memory.
        in_order = tfds.ReadConfig(
            interleave_cycle_length=1, try_autocache=False
        )
        examples = self._builder.as_dataset(
            split=self._split, shuffle_files=False, read_config=in_order
        )
        pairs = examples.map(
            lambda example: tuple(example[name] for name in self.features)
        )
        number = 0
        for batch in without_tuning(pairs.batch(READ_BATCH)):
            for pair in zip(*(side.numpy() for side in batch), strict=True):
                number += 1
                yield decode_pair(pair, f"{self.name}, pair {number}")

    def digest(self) -> str:
        # The files, which have a version, may be in the cloud.
        found = self._builder.info.splits[self._split]
        about = (
            self._builder.info.full_name,
            self._split,
            self.features,
            found.shard_lengths,
            found.num_bytes,
        )
        return hashlib.sha256(repr(about).encode()).hexdigest()


def open_tfds(
    name: str, source: str | None, target: str | None
) -> dict[str, TFDSSplit]:
    """Returns the splits of `NAME/CONFIG`, downloading it if necessary.

    Source and target are features. `"validation"` is renamed to `"valid"`.
    """
    try:
        return _open_splits(name, source, target)
    except ImportError as error:
        raise InputError(
            f"tfds:{name} needs the package {error.name}, which is not "
            'installed. Run pip install "keras-transformer-nmt[tfds]"'
        ) from error


def _open_splits(
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
    features = builder.info.features
    languages = []
    if isinstance(features, tfds.features.FeaturesDict):
        languages = sorted(features.keys())
    if source not in languages or target not in languages:
        raise InputError(
            f"source and target must be features of tfds:{name}: "
            f"{', '.join(languages)}. Received: source={source!r}, "
            f"target={target!r}"
        )
    builder.download_and_prepare()
    splits = {}
    for split in builder.info.splits:
        renamed = "valid" if split == "validation" else split
        splits[renamed] = TFDSSplit(
            f"tfds:{name}, split {renamed}", builder, split, source, target
        )
    return splits
