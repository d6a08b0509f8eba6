"""Readers of pairs of texts, and the parts of a corpus."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import POSITIVE_NUMBER, check_values
from keras_transformer.text.tags import check_tags
from keras_transformer.train.data.encoding import Statistics
from keras_transformer.train.data.filters import Pair, TextFilter

if TYPE_CHECKING:
    import tensorflow as tf

SPLITS = ("train", "valid", "test")


@dataclasses.dataclass(frozen=True)
class Reader:
    """Reads the pairs of a split.

    Each iteration reads the files, and yields source and target in their order.
    It raises an error at the first fault: a missing or damaged file, a text
    that is not UTF-8 or lacks a counterpart, or no pairs at all.
    """

    name: str  # for messages
    read: Callable[[], Iterator[tuple[str, str]]]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        pairs = self.read()
        first = next(pairs, None)
        if first is None:
            raise InputError(
                f"A corpus must contain pairs. Received: {self.name}, which is "
                "empty"
            )
        yield first
        yield from pairs


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a corpus. Most corpora consist of one.

    Args:
        data: As in `open_corpus`.
        splits: The pairs of source and target of each split.
        source: Language code of the source, or None if it is unknown.
        target: Language code of the target, or None.
        weight: How often a pass over the corpus reads each pair of this part.
        tag: Prepended to its sources: a tag such as `<bt>` or `>>fra<<`, or
            several, separated by spaces. Only the first may be a language.
        statistics: Counts of the split `train`, if it is prepared.
    """

    data: Sequence[str]
    splits: Mapping[str, Iterable[tuple[str, str]]]
    source: str | None = None
    target: str | None = None
    weight: float = 1.0
    tag: str | None = None
    statistics: Statistics | None = None

    def __post_init__(self) -> None:
        check_values(POSITIVE_NUMBER, weight=self.weight)
        check_tags(self.tags)
        if any(tag.startswith(">>") for tag in self.tags[1:]):
            raise InputError(
                "Only the first tag may be a language, such as `>>deu<< <bt>`. "
                f"Received: tag={self.tag!r}"
            )

    @property
    def tags(self) -> list[str]:
        """The tags in `tag`."""
        return (self.tag or "").split()

    @property
    def language(self) -> str | None:
        """The tag of the language, such as `>>fra<<`, if there is one."""
        return next((x for x in self.tags if x.startswith(">>")), None)

    def pairs(
        self, split: str, filters: Sequence[TextFilter] = ()
    ) -> Iterator[Pair]:
        """Yields the pairs of a split with tags, which filters do not see."""
        tags = "".join(f"{tag} " for tag in self.tags)
        for source, target in self.splits[split]:
            reason = ""
            for find_reason in filters:
                reason = reason or find_reason(source, target)
            yield Pair(tags + source, target, reason)

    def __str__(self) -> str:
        return " ".join([*self.data, *self.tags])


def shared_language(parts: Iterable[Part], side: str) -> str | None:
    """Returns the language of a side if all parts share it."""
    languages = {getattr(part, side) for part in parts}
    return languages.pop() if len(languages) == 1 else None


def without_tuning(dataset: "tf.data.Dataset") -> "tf.data.Dataset":
    """Returns the dataset without the autotuning of tf.data.

    Deleting an iterator joins its tuning thread, which may sleep for as long as
    the iterator has lived, up to a minute.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
