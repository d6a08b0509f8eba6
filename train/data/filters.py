"""Filters of pairs, for `prepare`.

A pair is dropped for the first of these reasons: identical, letters, duplicate
(which depend on its texts), empty, long, ratio.
"""

import contextlib
import dataclasses
import functools
import hashlib
import math
import os
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import NamedTuple

from keras_transformer.support import fields
from keras_transformer.support.files import atomic_write, check_output

# Reasons to drop pairs, and their descriptions in statistics.
REASONS = {
    "long": "longer than {max_length} tokens",
    "empty": "with an empty side",
    "identical": "with identical sides",
    "letters": "with too few letters",
    "duplicate": "that occurred before",
    "ratio": "with sides of too different lengths",
}


class TextPair(NamedTuple):
    """A pair of texts, and the reason for which it is dropped, if any."""

    source: str
    target: str
    dropped_for: str = ""


# A function of source and target: the reason to drop them, or "".
TextFilter = Callable[[str, str], str]


@fields.document_fields
@dataclasses.dataclass(frozen=True, kw_only=True)
class PairFilters:
    """Which pairs to drop besides empty and overlong ones.

    The flags of `prepare` are derived from the fields.
    """

    max_ratio: float | None = fields.described(
        fields.number_from(1, math.inf),
        "drop pairs where one side contains more than this many times the "
        "tokens of the other, counted with end tokens",
        None,
    )
    deduplicate: bool = fields.described(
        fields.BOOLEAN, "keep only the first of equal pairs", False
    )
    drop_identical: bool = fields.described(
        fields.BOOLEAN, "drop pairs with equal source and target", False
    )
    min_letters: float = fields.described(
        fields.FRACTION,
        "drop pairs where letters are a smaller share of a side's characters, "
        "not counting spaces, such as 0.5",
        0.0,
    )

    def __post_init__(self) -> None:
        fields.check_fields(self)

    def text_filter(self) -> TextFilter:
        """Returns a new filter of texts, for reading a part once."""
        hashes = set()  # of the pairs so far

        def find_reason(source: str, target: str) -> str:
            if self.drop_identical and source == target:
                return "identical"
            if self.min_letters:
                share = min(share_of_letters(source), share_of_letters(target))
                if share < self.min_letters:
                    return "letters"
            if self.deduplicate:
                content = f"{source}\0{target}".encode()  # texts contain no NUL
                key = hashlib.blake2b(content, digest_size=16).digest()
                if key in hashes:
                    return "duplicate"
                hashes.add(key)
            return ""

        return find_reason


# Vowels of many scripts are marks.
_is_letter = functools.cache(lambda x: unicodedata.category(x)[0] in "LM")


def share_of_letters(text: str) -> float:
    """Returns the share of letters and marks in a text without its spaces.

    It is 1 for a text of spaces, which is dropped as empty.
    """
    characters = "".join(text.split())
    letters = sum(map(_is_letter, characters))
    return letters / len(characters) if characters else 1.0


@contextlib.contextmanager
def write_dropped(
    path: str | os.PathLike,
) -> Iterator[Callable[[TextPair], None]]:
    """Yields a function that writes a pair as reason, tab, source, tab, target.

    The file appears when it is complete.
    """
    check_output(path, [".tsv"])
    with atomic_write(path) as partial, open(partial, "wb") as file:

        def write(pair: TextPair) -> None:
            source = re.sub(r"[\t\r\n]", " ", pair.source)
            target = re.sub(r"[\t\r\n]", " ", pair.target)
            file.write(f"{pair.dropped_for}\t{source}\t{target}\n".encode())

        yield write
