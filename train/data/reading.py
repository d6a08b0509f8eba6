"""Corpora: their descriptions, and how their pairs are read."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import POSITIVE_NUMBER, check_values
from keras_transformer.tasks import Task
from keras_transformer.text.tags import check_tags
from keras_transformer.train.data.encoding import Statistics
from keras_transformer.train.data.filters import TextFilter, TextPair

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
class CorpusEntry:
    """One of several corpora; `open_corpora` documents its values.

    They are the same in `--corpora`, in `train.yaml` and in `prepared.json`.
    """

    data: list[str]
    source: str | None = None
    target: str | None = None
    columns: tuple[int, int] | None = None
    weight: float = 1.0
    tag: str | None = None  # or several, separated by spaces

    @property
    def tags(self) -> list[str]:
        """The tags in `tag`."""
        return (self.tag or "").split()

    @property
    def language(self) -> str | None:
        """The tag of the language, such as `>>fra<<`, if there is one."""
        return next((x for x in self.tags if x.startswith(">>")), None)

    def arguments(self) -> dict[str, Any]:
        """Returns the values that differ from their defaults, by name."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(CorpusEntry)
            if getattr(self, field.name) != field.default
        }

    def __str__(self) -> str:
        return " ".join([*self.data, *self.tags])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part(CorpusEntry):
    """An opened entry: a part of a corpus. Most corpora consist of one."""

    splits: Mapping[str, Iterable[tuple[str, str]]]  # source and target
    statistics: Statistics | None = None  # of the split `train`, if prepared

    def __post_init__(self) -> None:
        check_values(POSITIVE_NUMBER, weight=self.weight)
        check_tags(self.tags)

    def pairs(
        self, split: str, find_reason: TextFilter | None = None
    ) -> Iterator[TextPair]:
        """Yields the pairs of a split with tags, which the filter ignores."""
        tags = "".join(f"{tag} " for tag in self.tags)
        for source, target in self.splits[split]:
            reason = find_reason(source, target) if find_reason else ""
            yield TextPair(tags + source, target, reason)


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Pairs of texts in one or more splits, as `open_corpus` returns them.

    Nothing is kept in memory: each iteration reads the files again.

    Args:
        name: Name in messages.
        task: What the pairs are for.
        parts: Its parts: one, unless `open_corpora` opened several corpora.
    """

    name: str
    task: Task
    parts: Sequence[Part]

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits in any part, such as `"train"`."""
        names = {split for part in self.parts for split in part.splits}
        known = [split for split in SPLITS if split in names]
        return tuple(known + sorted(names.difference(SPLITS)))

    @property
    def source(self) -> str | None:
        """Language code of the source, if all parts share it."""
        return _only(part.source for part in self.parts)

    @property
    def target(self) -> str | None:
        """Language code of the target, if all parts share it."""
        return _only(part.target for part in self.parts)

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of `open_corpus` or `open_corpora` by name."""
        entries = [part.arguments() for part in self.parts]
        is_plain = len(entries) == 1 and not {"weight", "tag"} & set(entries[0])
        return entries[0] if is_plain else {"corpora": entries}

    def pairs(self, split: str) -> Iterable[tuple[str, str]]:
        """Returns an iterable of pairs of strings, in the order of the files.

        Each iteration reads the files. It raises InputError where they are
        damaged, and if there are no pairs.

        Raises:
            InputError: If there is no such split.
        """
        parts = self._parts_of(split)

        def read() -> Iterator[tuple[str, str]]:
            for part in parts:
                for source, target, _ in part.pairs(split):
                    yield source, target

        return Reader(self.name, read)

    def pairs_of_parts(
        self, split: str
    ) -> Iterator[tuple[Part, list[tuple[str, str]]]]:
        """Yields the pairs of each part; raises as `pairs` does."""
        for part in self._parts_of(split):
            yield part, [pair[:2] for pair in part.pairs(split)]

    def texts(self, split: str) -> Iterator[str]:
        """Yields source and target of each pair; raises as `pairs` does."""
        return itertools.chain.from_iterable(self.pairs(split))

    def _parts_of(self, split: str) -> list[Part]:
        """Returns the parts with texts of a split, at least one."""
        parts = [part for part in self.parts if split in part.splits]
        if not parts:
            content = f"contains the splits {', '.join(self.splits)}"
            if split in self.splits:
                content = "is prepared, and contains no texts to train on"
            raise InputError(f"{self.name} {content}. Received: {split=}")
        return parts


def _only(languages: Iterable[str | None]) -> str | None:
    """Returns the language if there is only one."""
    different = set(languages)
    return different.pop() if len(different) == 1 else None


def without_tuning(dataset: "tf.data.Dataset") -> "tf.data.Dataset":
    """Returns the dataset without the autotuning of tf.data.

    Deleting an iterator joins its tuning thread, which may sleep for as long as
    the iterator has lived, up to a minute.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
