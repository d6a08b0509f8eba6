"""Corpora of TensorFlow Datasets."""

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from typing import Any

from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import explain_missing_packages
from keras_transformer.train.data import reading


@dataclasses.dataclass(kw_only=True)
class TFDSSplit(reading.Split):
    """A split of a dataset of TensorFlow Datasets."""

    builder: Any  # the tfds.core.DatasetBuilder, which has downloaded it
    split: str  # its name there
    features: tuple[str, str]  # source and target

    def read(self) -> Iterator[tuple[str, str]]:
        import tensorflow_datasets as tfds

        # One file at a time, in the order of the files. Without a cache, which
        # would stay in memory.
        order = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
        examples = self.builder.as_dataset(
            split=self.split, shuffle_files=False, read_config=order
        )
        pairs = examples.map(lambda x: tuple(x[name] for name in self.features))
        batches = iter(reading.without_tuning(pairs.batch(reading.READ_BATCH)))
        number = 0
        while True:
            with _explained(self.name):
                batch = next(batches, None)
            if batch is None:
                return
            for pair in zip(*(side.numpy() for side in batch), strict=True):
                number += 1
                yield reading.decode_pair(pair, f"{self.name}, pair {number}")


def open_splits(
    name: str, source: str | None, target: str | None
) -> dict[str, TFDSSplit]:
    """Returns the splits of `NAME/CONFIG`, downloading it if necessary.

    Source and target are features. `"validation"` is renamed to `"valid"`.

    Raises:
        InputError: If there is no such dataset, it has no such features, or
            TensorFlow Datasets fails.
    """
    with explain_missing_packages(InputError):
        import tensorflow_datasets as tfds

    with _explained(f"tfds:{name}"):
        builder = tfds.builder(name, data_dir=os.environ.get("TFDS_DATA_DIR"))
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
    with _explained(f"tfds:{name}"):
        builder.download_and_prepare()
    splits = {}
    for split in builder.info.splits:
        renamed = "valid" if split == "validation" else split
        splits[renamed] = TFDSSplit(
            f"tfds:{name}, split {renamed}",
            features=(source, target),
            builder=builder,
            split=split,
        )
    return splits


@contextlib.contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turns any error into an InputError: a dataset is a program of others."""
    try:
        yield
    except Exception as error:
        # The rest of a message may list every dataset there is.
        reason, *_ = str(error).strip().splitlines() or [""]
        raise InputError(
            "tfds: must be followed by a dataset that TensorFlow Datasets can "
            "read, and its configuration, such as tfds:wmt14_translate/de-en. "
            f"Received: {name}, {type(error).__name__}: {reason:.300}"
        ) from error
