"""Several corpora as one: what a user says of each, and their texts."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Sequence

from keras_transformer.support.fields import POSITIVE_NUMBER, check_values
from keras_transformer.text.tags import check_tags
from keras_transformer.train.data.reading import Split


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """What a user says of one of several corpora.

    Args:
        data: As in `open_corpus`.
        weight: How often a pass over all corpora reads each of its pairs.
        tag: What its sources begin with: a tag such as `<bt>` or `>>fra<<`, or
            several that spaces separate.
        source: Language code of the source, as in `open_corpus`.
        target: Language code of the target.
    """

    data: list[str]
    weight: float = 1.0
    tag: str | None = None
    source: str | None = None
    target: str | None = None

    def __post_init__(self) -> None:
        check_values(POSITIVE_NUMBER, weight=self.weight)
        check_tags(self.tags)

    @property
    def tags(self) -> list[str]:
        """The tags in `tag`."""
        return (self.tag or "").split()

    def tagged(self, source: str) -> str:
        """Returns a source with the tag before it."""
        return " ".join([*self.tags, source])

    def __str__(self) -> str:
        return " ".join([*self.data, *self.tags])


@dataclasses.dataclass
class Mixture(Split):
    """A split of several corpora, one after the other, with their tags."""

    parts: Sequence[tuple[Entry, Split]] = ()

    def read(self) -> Iterator[tuple[str, str]]:
        for entry, split in self.parts:
            for source, target in split:
                yield entry.tagged(source), target

    def digest(self) -> str:
        # Another weight is another order.
        parts = [(x.weight, x.tags, y.digest()) for x, y in self.parts]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
