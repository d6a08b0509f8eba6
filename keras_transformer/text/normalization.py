"""Normalization of text: rules for SentencePiece, and of sources."""

import collections
import functools
import itertools
import re
import sys
import unicodedata
from collections.abc import Collection, Iterable

# Classes of characters for Python and for TensorFlow's RE2. In sources the
# first become spaces, and the second are removed.
SPACES = "[\t-\r\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
INVISIBLE = (
    "[\\x00\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]"
)
# Ends a model with normalized sources: field 200 of SentencePiece's ModelProto,
# which is free for extensions and ignored.
SOURCE_MARK = b"\xc2\x0c\x12normalized sources"

# Characters that may replace each other in sources, the usual one first.
_ALIKE = (
    "'\u2019\u2018\u201b`\u00b4\u02b9\u02bb\u02bc\u02c8\u2032\u2039\u203a",
    '"\u201d\u201c\u201e\u201f\u2033\u00ab\u00bb\u301d\u301e\u301f',
    "-\u2013\u2014\u2010\u2011\u2012\u2015\u2212",
    "/\u2044\u2215",
)


def normalize_source(text: str) -> str:
    """Returns a source with plain spaces and without invisible characters."""
    return re.sub(SPACES, " ", re.sub(INVISIBLE, "", text))


def replace_invalid(text: str) -> str:
    """Replaces each byte that `errors="surrogateescape"` kept by U+FFFD."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def without_blank(texts: Iterable[str]) -> list[str]:
    """Replaces texts of only spaces and invisible characters by ""."""
    return [x if normalize_source(x).strip(" ") else "" for x in texts]


class Replacements(dict):
    """What the characters of a source become, by code point.

    A character that the vocabulary lacks becomes similar ones that it
    contains: one of `_ALIKE`, or those of NFKC. All others are kept.
    """

    def __init__(self, known: Collection[str]) -> None:
        self._known = known

    def __missing__(self, point: int) -> str:
        character = chr(point)
        alike = next((x for x in _ALIKE if character in x), "")
        compatible = unicodedata.normalize("NFKC", character)
        similar = [character, *alike]
        if compatible != character and compatible[0] != " ":  # not a mark
            similar.append("".join(self[ord(x)] for x in compatible))
        found = next(filter(self._knows, similar), character)
        if found != character and unicodedata.category(character) == "No":
            found = f"\0{found}"
        return self.setdefault(point, found)

    def _knows(self, text: str) -> bool:
        # Marks may be composed with the letter before them.
        combining = unicodedata.combining
        return all(x in self._known or combining(x) for x in text)

    def replace(self, text: str) -> str:
        """Returns the text of `normalize_source` with known characters."""
        # 1½ becomes 1 1/2, and 10² becomes 10 2: never a different number.
        text = re.sub("(?<=[0-9])\0", " ", text.translate(self))
        return text.replace("\0", "")

    def changes(self) -> dict[str, str]:
        """Returns what each character becomes that has similar ones."""
        others = map(chr, range(0x30000))  # NFKC keeps all above
        others = (x for x in others if unicodedata.normalize("NFKC", x) != x)
        return {x: self[ord(x)] for x in (*"".join(_ALIKE), *others)}


@functools.cache
def normalization_rules() -> str:
    """Returns the normalization of `Tokenizer` as SentencePiece rules.

    A rule is "code points, tab, code points". SentencePiece replaces the
    longest match from the left, so a character needs a rule for each way to
    write it: its marks in each canonically equivalent order, where the first
    ones may be part of a precomposed character.
    """
    normalize = unicodedata.normalize
    # Characters that can be decomposed, by their NFC.
    alike = collections.defaultdict(set)
    for character in map(chr, range(sys.maxunicode + 1)):
        if normalize("NFD", character) != character:
            alike[normalize("NFC", character)].add(character)
    rules = {}
    for together in list(alike):
        base, *marks = normalize("NFD", together)
        for order in map("".join, itertools.permutations(marks)):
            for at in range(len(marks) + 1):
                start = normalize("NFC", base + order[:at])
                for form in {start} | alike.get(start, set()):
                    form += order[at:]
                    if normalize("NFC", form) == together != form:
                        rules[form] = together
    # NUL cannot be a key, and remains a byte.
    for point in (*range(1, 0x20), *range(0x7F, 0xA0), 0x2028, 0x2029):
        rules[chr(point)] = " "

    def hexadecimal(text: str) -> str:
        return " ".join(f"{ord(character):X}" for character in text)

    return "".join(
        f"{hexadecimal(form)}\t{hexadecimal(rules[form])}\n"
        for form in sorted(rules)
    )
