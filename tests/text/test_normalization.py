import collections
import itertools
import sys
import unicodedata
from unicodedata import normalize

import pytest
from tokenizer_texts import CORPUS

from keras_transformer.text import normalization
from keras_transformer.text.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(CORPUS, vocab_size=340)


def normalized(tokenizer, texts):
    return list(map(tokenizer.decode, tokenizer.encode(texts)))


def ways_to_write_characters():
    """Yields each character that has several forms, and each of its forms.

    A form is a character with the same base and some of the marks, followed
    by the other marks in an order that is canonically equivalent.
    """
    by_base = collections.defaultdict(dict)
    for character in map(chr, range(sys.maxunicode + 1)):
        base, *marks = normalize("NFD", character)
        # Hangul syllables have no marks that could change their order.
        if base != character and not "\uac00" <= character <= "\ud7a3":
            by_base[base][character] = collections.Counter(marks)
    for base, found in by_base.items():
        for character, marks in found.items():
            yield character, character
            for start, some in [(base, collections.Counter()), *found.items()]:
                rest = (marks - some).elements() if some <= marks else ()
                for order in itertools.permutations(rest):
                    form = start + "".join(order)
                    if normalize("NFD", form) == normalize("NFD", character):
                        yield character, form


def test_every_way_to_write_a_character_is_composed(tokenizer):
    ways = sorted(set(ways_to_write_characters()))
    assert ("\u1ead", "a\u0302\u0323") in ways and len(ways) > 4_000
    found = normalized(tokenizer, [form for _, form in ways])
    assert found == [normalize("NFC", character) for character, _ in ways]


def test_hangul_is_composed(tokenizer):
    syllables = [chr(point) for point in range(0xAC00, 0xD7A4)]
    forms = [normalize("NFD", syllable) for syllable in syllables]
    forms += [
        normalize("NFC", form[:2]) + form[2] for form in forms if form[2:]
    ]
    assert normalized(tokenizer, forms) == [normalize("NFC", f) for f in forms]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\tb\r\nc\x07d\u2028e", "a b c d e"),
        ("  two   spaces ", "two spaces"),
        # No character has these marks: they keep their order.
        ("q\u0302\u0323 q\u0323\u0302", "q\u0302\u0323 q\u0323\u0302"),
    ],
)
def test_texts(tokenizer, text, expected):
    assert normalized(tokenizer, [text]) == [expected]


CHARACTERS = list(map(chr, [*range(0xD800), *range(0xE000, 0x10000)]))
SPACES = [c for c in CHARACTERS if unicodedata.category(c) == "Zs"]
SPACES += ["\t", "\r", "\n", "\v", "\f", "\x85", "\u2028", "\u2029"]
INVISIBLE = "\0\xad\u200b\u2060\ufeff\u200e\u200f\u061c"
INVISIBLE += "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def test_sources_have_plain_spaces_and_nothing_invisible():
    expected = {f"a{space}b": "a b" for space in SPACES}
    expected |= {f"a{mark}b": "ab" for mark in INVISIBLE}
    expected |= dict.fromkeys(["a\u200cb", "a\u200db", "e\u0301", "▁"])
    texts = [*expected, "".join(CHARACTERS)]
    normalized = list(map(normalization.normalize_source, texts))
    values = [value or text for text, value in expected.items()]
    assert normalized[:-1] == values
    assert len(texts[-1]) - len(normalized[-1]) == len(INVISIBLE)


def test_blank_texts_are_empty():
    texts = ["".join([*SPACES, *INVISIBLE]), "", "a\u00a0", "\u200d"]
    expected = ["", "", "a\u00a0", "\u200d"]
    assert normalization.without_blank(texts) == expected


@pytest.mark.parametrize(
    ("known", "text", "expected"),
    [
        ("Icant '", "I can´t", "I can't"),
        ("'", "`‘’ʼ′", "'''''"),
        ("’", "'´’", "’’’"),
        ('"', "“”„«»″", '""""""'),
        ("-", "‐‑‒–—―−", "-------"),
        ("-–", "–‑", "–-"),  # what is known stays
        (".fiABC1ガ", "…ﬁＡ１カ", "...fiA1カ"),
        ("カ", "ｶﾞ", "カ\u3099"),  # which the vocabulary composes
        # Digits are not joined to those before them.
        ("m12/0 ", "1½ m² 10² ㎡ ½", "1 1/2 m2 10 2 m2 1/2"),
        ("12", "１²²", "1 2 2"),
        ("C", "CO₂ ¨", "CO₂ ¨"),  # nothing similar is known
    ],
)
def test_unknown_characters_become_similar_ones(known, text, expected):
    replacements = normalization.Replacements(set(known))
    assert replacements.replace(text) == expected
