"""Several corpora as one: what a user says of each, and their texts."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import (
    POSITIVE_NUMBER,
    Rule,
    check_values,
)
from keras_transformer.text.tags import check_tags
from keras_transformer.train.data.reading import Split

_TEXT = Rule(lambda x: isinstance(x, str | None), "a text")
_TEXTS = Rule(
    lambda x: isinstance(x, list) and all(isinstance(y, str) for y in x),
    "a text or a list of texts",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """What a user says of one of several corpora.

    Args:
        data: As in `open_corpus`; a text becomes a list.
        weight: How often a pass over all corpora reads each of its pairs.
        tag: What its sources begin with: a tag such as `<bt>` or `>>fra<<`, or
            several that spaces separate, of which the first may be a language.
        source: Language code of the source, as in `open_corpus`.
        target: Language code of the target.
    """

    data: list[str]
    weight: float = 1.0
    tag: str | None = None
    source: str | None = None
    target: str | None = None

    def __post_init__(self) -> None:
        data = [self.data] if isinstance(self.data, str) else self.data
        data = list(data) if isinstance(data, tuple) else data
        object.__setattr__(self, "data", data)
        check_values(_TEXTS, data=data)
        texts = dict(tag=self.tag, source=self.source, target=self.target)
        check_values(_TEXT, **texts)
        check_values(POSITIVE_NUMBER, weight=self.weight)
        check_tags(self.tags)
        if any(tag.startswith(">>") for tag in self.tags[1:]):
            raise InputError(
                "A language must be the first tag, such as `>>deu<< <bt>`, and "
                f"the only language. Received: tag={self.tag!r}"
            )

    @classmethod
    def from_dict(cls, values: Any) -> "Entry":
        """Returns the entry that a file has, as plain values.

        Raises:
            InputError: If the values are invalid.
        """
        try:
            return cls(**values)
        except (TypeError, InputError) as error:  # TypeError: another field
            names = ", ".join(field.name for field in dataclasses.fields(cls))
            raise InputError(
                f"Each corpus must have data, and valid values of {names}. "
                f"Received: {values!r:.100}, {error}"
            ) from error

    @property
    def tags(self) -> list[str]:
        """The tags in `tag`."""
        return (self.tag or "").split()

    @property
    def language(self) -> str | None:
        """The first of the tags if it is a language, such as `>>fra<<`."""
        return next((x for x in self.tags if x.startswith(">>")), None)

    def tagged(self, source: str) -> str:
        """Returns a source with the tag before it."""
        return " ".join([*self.tags, source])

    def __str__(self) -> str:
        return " ".join([*self.data, *self.tags])


def parse_entries(values: Any) -> list[Entry]:
    """Returns the entries of a list, which may have them as plain values."""
    if not values or not isinstance(values, list | tuple):
        raise InputError(
            f"Several corpora need a list of entries. Received: {values!r:.100}"
        )
    return [x if isinstance(x, Entry) else Entry.from_dict(x) for x in values]


@dataclasses.dataclass
class Mixture(Split):
    """A split of several corpora, one after the other, with their tags."""

    parts: Sequence[tuple[Entry, Split]] = ()

    def read(self) -> Iterator[tuple[str, str]]:
        for entry, split in self.parts:
            for source, target in split:
                yield entry.tagged(source), target
