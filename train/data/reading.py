"""What the readers of all corpus formats and the pipelines share."""

from collections.abc import Sequence
from typing import BinaryIO

import tensorflow as tf

from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import available_cores

SPLITS = ("train", "valid", "test")

# Lines or records per call of an op. One at a time is far slower, and more
# than this is not faster.
READ_BATCH = 1024


# A fixed number, because tf.data does not tune the datasets inside `flat_map`.
NUM_PARALLEL_CALLS = available_cores()


def without_tuning(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the dataset without the tuning of tf.data.

    Parallelism and buffers are given here. The thread that tunes them can miss
    that its iterator is deleted. The deletion then waits for about as long as
    the iterator has lived, up to a minute.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def open_file(path: str) -> BinaryIO:
    """Opens a file of a corpus for reading bytes.

    Raises:
        InputError: If it cannot be opened.
    """
    try:
        return open(path, "rb")
    except OSError as error:
        raise InputError(
            "A file of the corpus cannot be read. Received: "
            f"{path} ({error.strerror})"
        ) from error


def decode_pair(pair: Sequence[bytes], place: str) -> tuple[str, str]:
    """Decodes the source and the target of a record.

    Args:
        pair: Source and target in UTF-8.
        place: Where the pair was read, for the error message.

    Raises:
        InputError: If the bytes are not valid UTF-8.
    """
    source, target = pair
    try:
        return source.decode("utf-8"), target.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"A corpus must be UTF-8 text. Received: {place}: {error.reason}"
        ) from None
