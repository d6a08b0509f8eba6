"""What the readers of all corpus formats share."""

from collections.abc import Sequence
from typing import BinaryIO

from keras_transformer.errors import InputError
from keras_transformer.startup import available_cores

SPLITS = ("train", "valid", "test")

# Lines or records per call of an op. One at a time is far slower, and more
# than this is not faster.
READ_BATCH = 1024


# A fixed number, because tf.data does not tune the datasets inside `flat_map`.
NUM_PARALLEL_CALLS = available_cores()


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
