"""Filters: which pairs of a corpus `prepare` drops.

A pair is dropped for the first of these reasons: identical, letters, duplicate,
empty, long, ratio. Each of the first two depends on the texts of the pair
alone, the last three on their lengths in tokens.
"""

import contextlib
import dataclasses
import functools
import hashlib
import math
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator

from keras_transformer.support.fields import (
    BOOLEAN,
    FRACTION,
    check_fields,
    described,
    document_fields,
    number_from,
)
from keras_transformer.support.files import atomic_write
from keras_transformer.train.data.reading import Split

# Reasons to drop pairs, and how a line of statistics describes these pairs.
REASONS = {
    "long": "longer than {max_length} tokens",
    "empty": "with an empty side",
    "identical": "with identical sides",
    "letters": "with too few letters",
    "duplicate": "that occurred before",
    "ratio": "with sides of too different lengths",
}
# Source, target, and the reason to drop the pair: "" to keep it.
Examined = tuple[str, str, str]


@document_fields
@dataclasses.dataclass(frozen=True, kw_only=True)
class PairFilters:
    """Which pairs are dropped that training could use.

    The flags of `prepare` are derived from the fields.
    """

    max_ratio: float | None = described(
        number_from(1, math.inf),
        "drop pairs of which one side has more than so many times the tokens "
        "of the other, counted with end tokens",
        None,
    )
    deduplicate: bool = described(
        BOOLEAN, "keep only the first of equal pairs", False
    )
    drop_identical: bool = described(
        BOOLEAN, "drop pairs whose source and target are equal", False
    )
    min_letters: float = described(
        FRACTION,
        "drop pairs of which a side has a smaller share of letters among its "
        "characters, spaces left out, such as 0.5",
        0.0,
    )

    def __post_init__(self) -> None:
        check_fields(self)


NO_FILTERS = PairFilters()


@dataclasses.dataclass(frozen=True)
class ExaminedPairs:
    """Pairs of a split, examined by the filters that need texts alone."""

    split: Split
    filters: PairFilters

    def __iter__(self) -> Iterator[Examined]:
        filters = self.filters
        for source, target in self.split:
            reason = ""
            if filters.drop_identical and source == target:
                reason = "identical"
            elif filters.min_letters and filters.min_letters > min(
                share_of_letters(source), share_of_letters(target)
            ):
                reason = "letters"
            yield source, target, reason


# Vowels of many scripts are marks.
_is_letter = functools.cache(lambda x: unicodedata.category(x)[0] in "LM")


def share_of_letters(text: str) -> float:
    """Returns the share of letters and their marks, of all but spaces.

    It is 1 for a text without characters, which is dropped as empty.
    """
    characters = "".join(text.split())
    letters = sum(map(_is_letter, characters))
    return letters / len(characters) if characters else 1.0


def keep_passing(examined: Iterable[Examined]) -> Iterator[tuple[str, str]]:
    """Returns the pairs without a reason."""
    return (
        (source, target) for source, target, reason in examined if not reason
    )


def mark_duplicates(examined: Iterable[Examined]) -> Iterator[Examined]:
    """Yields pairs, and another reason for all but the first of equal ones."""
    hashes = set()
    for source, target, reason in examined:
        if not reason:
            content = f"{source}\0{target}".encode()  # no text has a NUL
            key = hashlib.blake2b(content, digest_size=16).digest()
            reason = "duplicate" if key in hashes else ""
            hashes.add(key)
        yield source, target, reason


@contextlib.contextmanager
def write_dropped(
    path: str | os.PathLike,
) -> Iterator[Callable[[str, Iterable[str]], None]]:
    """Yields a function that writes the reason and the texts of a pair.

    The file has them between tabs, and appears when it is complete.
    """
    with atomic_write(path) as partial, open(partial, "wb") as file:

        def write(reason: str, pair: Iterable[str]) -> None:
            texts = (re.sub(r"[\t\r\n]", " ", text) for text in pair)
            file.write(("\t".join((reason, *texts)) + "\n").encode())

        yield write
