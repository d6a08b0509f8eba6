"""The base class of the readers of all corpus formats, and their helpers."""

import abc
import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

from keras_transformer.support.compressed import decompressed
from keras_transformer.support.errors import InputError

if TYPE_CHECKING:
    import tensorflow as tf

SPLITS = ("train", "valid", "test")

# Records per call of an op. One at a time is far slower, and more than this is
# not faster.
READ_BATCH = 1024


@dataclasses.dataclass
class Split(abc.ABC):
    """One split of a corpus; each storage format has its own subclass.

    An iteration yields source and target of each pair, in the order of the
    files, which it reads. It raises `InputError` at the first fault: a file is
    missing or damaged, a text is not UTF-8 or has no counterpart, or there are
    no pairs at all.
    """

    name: str  # in messages
    paths: Sequence[str] = ()  # files, in reading order

    def __iter__(self) -> Iterator[tuple[str, str]]:
        is_empty = True
        for pair in self.read():
            is_empty = False
            yield pair
        if is_empty:
            raise InputError(
                f"A corpus must have pairs. Received: {self.name}, which is "
                "empty."
            )

    @abc.abstractmethod
    def read(self) -> Iterator[tuple[str, str]]:
        """Yields the pairs, perhaps none."""


def without_tuning(dataset: "tf.data.Dataset") -> "tf.data.Dataset":
    """Returns the dataset without the tuning of tf.data.

    Parallelism and buffers are given here. The thread that tunes them can miss
    that its iterator is deleted. The deletion then waits for about as long as
    the iterator has lived, up to a minute.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def open_file(path: str) -> BinaryIO:
    """Opens a file of a corpus for reading bytes."""
    try:
        return open(path, "rb")
    except OSError as error:
        raise InputError(
            "A file of the corpus cannot be read. Received: "
            f"{path} ({error.strerror})"
        ) from error


@contextlib.contextmanager
def open_text(path: str) -> Iterator[BinaryIO]:
    """Opens a file of text, which may be compressed, for reading bytes."""
    with open_file(path) as file, decompressed(file, path) as text:
        yield text


def decode_pair(pair: Sequence[bytes], place: str) -> tuple[str, str]:
    """Decodes source and target, which were read at `place`, from UTF-8."""
    try:
        source, target = (x.decode("utf-8").replace("\0", "") for x in pair)
        return source, target
    except UnicodeDecodeError as error:
        raise InputError(
            f"A corpus must be UTF-8 text. Received: {place}: {error.reason}"
        ) from None
