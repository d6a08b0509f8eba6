"""Rules for SentencePiece to normalize text, and normalization of sources."""

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

# Characters that may replace each other in sources, the usual one first.
_ALIKE = (
    "'\u2019\u2018\u201b`\u00b4\u02b9\u02bb\u02bc\u02c8\u2032\u2039\u203a",
    '"\u201d\u201c\u201e\u201f\u2033\u00ab\u00bb\u301d\u301e\u301f',
    "-\u2013\u2014\u2010\u2011\u2012\u2015\u2212",
    "/\u2044\u2215",
)

# Code points of the blocks with characters that NFKC changes.
_MAY_CHANGE = (
    range(0xA0, 0x3400),
    range(0xA640, 0xAC00),
    range(0xF900, 0x11000),
    range(0x1CC00, 0x20000),
    range(0x2F800, 0x2FA20),
)


def normalize_source(text: str) -> str:
    """Returns a source with plain spaces and without invisible characters."""
    return re.sub(SPACES, " ", re.sub(INVISIBLE, "", text))


def replace_invalid(text: str) -> str:
    """Replaces each byte that `errors="surrogateescape"` kept by U+FFFD."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def is_blank(text: str) -> bool:
    """Returns whether a text is only spaces and invisible characters."""
    return not normalize_source(text).strip(" ")


def without_blank(texts: Iterable[str]) -> list[str]:
    """Replaces blank texts by ""."""
    return ["" if is_blank(text) else text for text in texts]


class Replacements:
    """Replaces characters that a vocabulary lacks by similar ones.

    A character becomes the first one of `_ALIKE` that the vocabulary contains,
    or its NFKC. If the vocabulary lacks those, too, the character is kept.

    Args:
        known: The characters of the vocabulary.
    """

    def __init__(self, known: Collection[str]) -> None:
        table: dict[str, str] = {}  # what each character becomes, if it changes
        for alike in _ALIKE:
            usual = next((x for x in alike if x in known), None)
            if usual is not None:
                table |= {x: usual for x in alike if x not in known}
        for character in map(chr, itertools.chain(*_MAY_CHANGE)):
            if unicodedata.is_normalized("NFKC", character):
                continue
            form = unicodedata.normalize("NFKC", character)
            form = "".join(table.get(x, x) for x in form)
            is_mark = form[0] == " " or unicodedata.combining(character)
            # The vocabulary may compose marks with the letter before them.
            is_known = all(x in known or unicodedata.combining(x) for x in form)
            if is_known and not is_mark and character not in known:
                table.setdefault(character, form)
        self.table = table
        self._by_code_point = str.maketrans(table)
        numbers = [x for x in table if unicodedata.category(x) == "No"]
        # A space separates numbers from digits, and from characters that
        # become texts with a digit at the end: 10² becomes 10 2.
        self.numbers = "".join(numbers)
        self.digits = "0123456789"
        self.digits += "".join(x for x in table if table[x][-1] in self.digits)

    def replace(self, text: str) -> str:
        """Returns the text of `normalize_source` with known characters."""
        if self.numbers and not text.isascii():
            pattern = f"(?<=[{self.digits}])([{self.numbers}])"
            text = re.sub(pattern, r" \1", text)
        return text.translate(self._by_code_point)


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
        f"{hexadecimal(form)}\t{hexadecimal(normal)}\n"
        for form, normal in sorted(rules.items())
    )
