"""Corpora from TensorFlow Datasets."""

import functools
import os
from collections.abc import Iterator

from keras_transformer.support.errors import InputError, explain_damage
from keras_transformer.support.startup import explain_missing_packages
from keras_transformer.train.data.reading import Reader, without_tuning

# Pairs per batch; one at a time is far slower.
_BATCH = 1024
_EXPECTED = (
    "a readable dataset and its config, such as tfds:wmt14_translate/de-en"
)


def open_splits(
    name: str, source: str | None, target: str | None
) -> dict[str, Reader]:
    """Returns the splits of `tfds:NAME/CONFIG`, downloading it if necessary.

    Source and target are features. `"validation"` is renamed to `"valid"`.
    """
    with explain_missing_packages():
        import tensorflow_datasets as tfds

    # A dataset is a program: it may raise anything.
    with explain_damage(name, _EXPECTED):
        builder = tfds.builder(
            name.removeprefix("tfds:"), data_dir=os.environ.get("TFDS_DATA_DIR")
        )
    features = builder.info.features
    languages = []
    if isinstance(features, tfds.features.FeaturesDict):
        languages = sorted(features.keys())
    if source == target or not {source, target} <= set(languages):
        raise InputError(
            f"Source and target must be two features of {name}: "
            f"{', '.join(languages)}. Received: {source} and {target}"
        )
    with explain_damage(name, _EXPECTED):
        builder.download_and_prepare()

    def read(split: str) -> Iterator[tuple[str, str]]:
        # One file after the other; a cache would stay in memory.
        order = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
        with explain_damage(f"{name}, split {split},", _EXPECTED):
            examples = builder.as_dataset(
                split=split, shuffle_files=False, read_config=order
            )
            pairs = examples.map(lambda x: (x[source], x[target]))
            for batch in without_tuning(pairs.batch(_BATCH)):
                sources, targets = (side.numpy().tolist() for side in batch)
                for pair in zip(sources, targets, strict=True):
                    yield tuple(x.decode().replace("\0", "") for x in pair)

    return {
        "valid" if split == "validation" else split: Reader(
            f"{name}, split {split}", functools.partial(read, split)
        )
        for split in builder.info.splits
    }
