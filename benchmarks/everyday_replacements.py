"""Other names and numbers in pairs of sentences, on both sides alike.

What does not occur exactly once on each side is left alone, and so is a form
that the other word may not have: the genitive of "Hans", a number that must be
singular. Men get no title: "Herr" depends on the case, and templates teach it.
"""

import random
import re

from everyday_lists import (
    CITIES,
    COUNTRIES,
    MONTHS,
    Pair,
    german_number,
    number_words,
)
from everyday_slots import Slots

# English and German forms in Tatoeba.
_PEOPLE = {
    "Tom": (Slots.male, "Tom"),
    "John": (Slots.male, "John|Johannes|Johann"),
    "Mary": (Slots.female, "Maria|Mary|Marie"),
    "Alice": (Slots.female, "Alice|Elke"),
}
_PLACES = [
    *((english, german, CITIES) for english, german in CITIES),
    *((english, german, COUNTRIES) for english, german in COUNTRIES),
    ("Boston", "Boston", CITIES),
    ("Tokyo", "Tokio|Tokyo", CITIES),
]
_NO_GENITIVE = ("s", "š", "x", "z", "ß", "ce")
_GERMAN_WORDS = {number_words(n)[1]: n for n in range(2, 101)}
_ENGLISH_WORDS = {number_words(n)[0]: n for n in range(2, 100)}
_WORD = (
    rf"(?<![\w-])(?:{'|'.join(sorted(_ENGLISH_WORDS, key=len)[::-1])})(?![\w-])"
)
_GERMAN_WORD = (
    rf"(?<![\w-])(?:{'|'.join(sorted(_GERMAN_WORDS, key=len)[::-1])})(?![\w-])"
)
# Times of day, known groups, and parts of larger numbers.
_NOT_AFTER = (
    r"(?:\b(?:at|by|till|until|around|about|before|after|past|to|since|the|these"
    r"|those|other|all|of|number|one|a|point)|[\d$€£])\s*$"
)
_NOT_BEFORE = (
    r"^\s*(?:hundred|thousand|million|billion|dozen|o'clock|[ap]\.?m\b|past|to"
    r"|or|and a half|times|of)\b|^-"
)
_GERMAN_NOT_BEFORE = (
    r"^\s*(?:hundert|tausend|Million|Milliard|Uhr|Dutzend|oder|Mal|mal)|^-"
)
# Hours, and numbers that are names.
_NO_NUMBER_AFTER = r"\b(?:at|by|until|till|flight|room|zip code|no\.|rt\.)\s*$"
_TIME = r"(?<![\d:.])(\d{1,2}):(\d\d)(?!\s*[ap]\.?m|[\d:])"
_GERMAN_TIME = r"(?<![\d:.])(\d{1,2})[.:](\d\d)(?:[- ]?Uhr)?(?![\d:-]|[- ]?Uhr)"
_NUMBER = r"(?<![\w.,:/-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w:/]|[.,]\d|-)"
_GERMAN_NUMBER = r"(?<![\w.,:/-])\d+(?:[. ]\d{3})*(?:,\d+)?(?![\w:/]|[.,]\d|-)"


def _once(pattern: str, text: str) -> re.Match | None:
    """Returns the match of a pattern that a text has exactly once."""
    matches = list(re.finditer(pattern, text))
    return matches[0] if len(matches) == 1 else None


def _put(text: str, match: re.Match, new: str) -> str:
    return text[: match.start()] + new + text[match.end() :]


def replace_names(pair: Pair, slots: Slots) -> Pair | None:
    """Returns the pair with other people and places, None without any."""
    changed = pair
    for place in _PLACES:
        changed = _replace_place(changed, place, slots.draw)
    for name in _PEOPLE:
        changed = _replace_person(changed, name, slots)
    return None if changed == pair else changed


def _replace_person(pair: Pair, name: str, slots: Slots) -> Pair:
    draw_name, forms = _PEOPLE[name]
    source = _once(rf"(?<![\w-]){name}(?![\w-])(?! [A-Z])", pair[0])
    # A genitive may stand before a noun, "Toms Auto".
    target = _once(rf"(?<![\w-])({forms})(?:(s)|(?! [A-Z]))(?![\w-])", pair[1])
    if not source or not target:
        return pair
    english = german = draw_name(slots)
    chance = slots.draw.random()
    # "Mary, are you there?" would be "Frau Weber, bist du da?".
    is_called = re.search(rf"\byou|, {name}|{name},", pair[0], re.I)
    may_have_title = draw_name is Slots.female and not (target[2] or is_called)
    if chance < 0.25:
        english = german = slots.full_name(english)
    elif chance < 0.4 and may_have_title:
        title = slots.draw.choice(["Mrs.", "Ms.", "Mrs", "Ms", "Miss"])
        family = slots.family()
        english, german = f"{title} {family}", f"Frau {family}"
    if target[2]:
        is_genitive = pair[0][source.end() :].startswith(("'s", "’s"))
        if not is_genitive or german.endswith(_NO_GENITIVE):
            return pair
        german += "s"
    return _put(pair[0], source, english), _put(pair[1], target, german)


def _replace_place(pair: Pair, place: tuple, draw: random.Random) -> Pair:
    english, german, others = place
    if english not in pair[0]:
        return pair
    # Not after a capitalized word of three letters ("New England"), nor before
    # a capital ("Paris Hilton").
    source = _once(
        rf"(?<![\w-])(?<![A-Z][a-z]. ){english}(?![\w-])(?! [A-Z])", pair[0]
    )
    target = _once(rf"(?<![\w-])({german})(?![\w-])(?! [A-Z])", pair[1])
    if not source or not target:
        return pair
    new = draw.choice(others)
    return _put(pair[0], source, new[0]), _put(pair[1], target, new[1])


def replace_numbers(pair: Pair, slots: Slots) -> Pair | None:
    """Returns the pair with another time, number or number word, or None."""
    draw = slots.draw
    for replace in (_replace_time, _replace_digits, _replace_words):
        changed = replace(pair, draw)
        if changed:
            return changed
    return None


def _replace_time(pair: Pair, draw: random.Random) -> Pair | None:
    source, target = _once(_TIME, pair[0]), _once(_GERMAN_TIME, pair[1])
    if not source or not target or source[1] != target[1].lstrip("0"):
        return None
    minute = draw.choice([0, 15, 30, 45, draw.randrange(60)])
    time = f"{draw.randrange(24)}:{minute:02}"
    return _put(pair[0], source, time), _put(pair[1], target, f"{time} Uhr")


def _replace_digits(pair: Pair, draw: random.Random) -> Pair | None:
    months = "|".join(german for _, german in MONTHS)
    english, german = _once(_NUMBER, pair[0]), _once(_GERMAN_NUMBER, pair[1])
    if not english or not german:
        return None
    number = english[0].replace(",", "")
    if number == "1" or number != re.sub("[. ]", "", german[0]).replace(
        ",", "."
    ):
        return None
    before, after = pair[0][: english.start()], pair[0][english.end() :]
    german_after = pair[1][german.end() :]
    if (
        re.search(_NO_NUMBER_AFTER, before, re.I)
        or re.search(r"\bum\s*$", pair[1][: german.start()], re.I)
        or re.match(r" o'clock| ?[ap]\.?m\b", after)
        or re.match("[- ]?Uhr", german_after)
    ):
        return None
    if re.match(rf"\. ({months})", german_after):
        text = str(draw.randint(2, 28))
    elif "." in number:
        text = f"{draw.uniform(1, 99):.{len(number.partition('.')[2])}f}"
    elif len(number) == 4 and number[0] in "12":
        text = str(draw.randint(1800, 2035))
    else:
        separator = "," if "," in english[0] or len(number) > 4 else ""
        digits = draw.randint(1, min(len(number) + 1, 6 if separator else 4))
        text = f"{draw.randrange(2, 10**digits):{separator}}"
    target = _put(pair[1], german, german_number(text))
    return _put(pair[0], english, text), target


def _replace_words(pair: Pair, draw: random.Random) -> Pair | None:
    source = _once(f"(?i:{_WORD})", pair[0])
    target = _once(f"(?i:{_GERMAN_WORD})", pair[1])
    if not source or not target:
        return None
    if _ENGLISH_WORDS[source[0].lower()] != _GERMAN_WORDS[target[0].lower()]:
        return None
    before, after = pair[0][: source.start()], pair[0][source.end() :]
    german_after = pair[1][target.end() :]
    if after.startswith(" o'clock") and german_after.startswith(" Uhr"):
        hour = draw.randint(2, 12)
        english, german = number_words(hour)
        if draw.random() < 0.5:
            english = german = str(hour)
    elif (
        re.search(_NOT_AFTER, before, re.I)
        or re.search(_NOT_BEFORE, after)
        or re.search(_GERMAN_NOT_BEFORE, german_after)
        or re.match(r"[.,!?]", after)
    ):
        return None
    elif draw.random() < 0.5:
        english, german = number_words(draw.randint(2, draw.choice([20, 99])))
    else:
        number = draw.randint(2, draw.choice([20, 20, 99, 99, 999, 9_999]))
        english = f"{number:,}"
        german = german_number(english)
    if source[0][0].isupper():
        english = english[:1].upper() + english[1:]
    if target[0][0].isupper():
        german = german[:1].upper() + german[1:]
    return _put(pair[0], source, english), _put(pair[1], target, german)
