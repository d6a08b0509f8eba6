"""Other names and numbers in pairs of sentences, on both sides alike.

What does not occur exactly once on each side is left alone, and so is a form
that the other word may not have: the genitive of "Hans", "Herr" where German
may need "Herrn", a number that must be singular.
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
    "Tom": ("male", "Tom"),
    "John": ("male", "John|Johannes|Johann"),
    "Mary": ("female", "Maria|Mary|Marie"),
    "Alice": ("female", "Alice|Elke"),
}
_NO_GENITIVE = ("s", "x", "z", "ß", "ce")
_GERMAN_WORDS = {number_words(n)[1]: n for n in range(2, 101)}
_ENGLISH_WORDS = {number_words(n)[0]: n for n in range(2, 100)}
_WORD = (
    rf"(?<![\w-])(?:{'|'.join(sorted(_ENGLISH_WORDS, key=len)[::-1])})(?![\w-])"
)
_WORT = (
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
_NICHT_VOR = (
    r"^\s*(?:hundert|tausend|Million|Milliard|Uhr|Dutzend|oder|Mal|mal)|^-"
)
_TIME = r"(?<![\d:.])(\d{1,2}):(\d\d)(?!\s*[ap]\.?m|[\d:])"
_ZEIT = r"(?<![\d:.])(\d{1,2})[.:](\d\d)(?:[- ]?Uhr)?(?![\d:-])"
_NUMBER = r"(?<![\w.,:/-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w:/]|[.,]\d|-)"
_ZAHL = r"(?<![\w.,:/-])\d+(?:[. ]\d{3})*(?:,\d+)?(?![\w:/]|[.,]\d|-)"


def _once(pattern: str, text: str) -> re.Match | None:
    """Returns the match of a pattern that a text has exactly once."""
    found = list(re.finditer(pattern, text))
    return found[0] if len(found) == 1 else None


def _put(text: str, match: re.Match, new: str, group: int = 0) -> str:
    return text[: match.start(group)] + new + text[match.end(group) :]


def replace_names(pair: Pair, slots: Slots) -> Pair | None:
    """Returns the pair with other people and places, None without any."""
    changed = pair
    for name, (gender, german) in _PEOPLE.items():
        changed = _replace_person(changed, name, gender, german, slots)
    for english, german, others in _PLACES:
        changed = _replace_place(changed, english, german, others, slots.draw)
    return None if changed == pair else changed


def _replace_person(
    pair: Pair, name: str, gender: str, german: str, slots: Slots
) -> Pair:
    source = _once(rf"(?<![\w-]){name}(?![\w-])(?! [A-Z])", pair[0])
    target = _once(rf"(?<![\w-])({german})(s?)(?![\w-])(?! [A-Z])", pair[1])
    if not source or not target:
        return pair
    first = getattr(slots, gender)()
    new = english = first
    kind = slots.draw.random()
    starts = source.start() == 0 and target.start() == 0
    # "Tom, are you there?" would be "Frau Weber, bist du da?".
    is_called = re.search(rf"\byou|, {name}|{name},", pair[0], re.I)
    if kind < 0.25:
        new = english = slots.full_name(first)
    elif kind < 0.4 and not target[2] and not is_called:
        family = slots.family()
        if gender == "female":
            title = slots.draw.choice(["Mrs.", "Ms.", "Mrs", "Ms", "Miss"])
            english, new = f"{title} {family}", f"Frau {family}"
        elif starts and not pair[0].startswith(f"{name}'"):
            title = slots.draw.choice(["Mr.", "Mr.", "Mr"])
            english, new = f"{title} {family}", f"Herr {family}"
    if target[2]:
        is_genitive = pair[0][source.end() :].startswith(("'s", "’s"))
        if not is_genitive or new.endswith(_NO_GENITIVE):
            return pair
        new += "s"
    return _put(pair[0], source, english), _put(pair[1], target, new)


_PLACES = [
    *((english, german, CITIES) for english, german in CITIES),
    *((english, german, COUNTRIES) for english, german in COUNTRIES),
    ("Boston", "Boston", CITIES),
    ("Tokyo", "Tokio|Tokyo", CITIES),
]


def _replace_place(
    pair: Pair,
    english: str,
    german: str,
    others: list[Pair],
    draw: random.Random,
) -> Pair:
    if english not in pair[0]:
        return pair
    # Not "New England", "Paris Hilton", "Mount Cook".
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
    source, target = _once(_TIME, pair[0]), _once(_ZEIT, pair[1])
    if not source or not target or source[1] != target[1].lstrip("0"):
        return None
    minute = draw.choice([0, 15, 30, 45, draw.randrange(60)])
    time = f"{draw.randrange(24)}:{minute:02}"
    return _put(pair[0], source, time), _put(pair[1], target, f"{time} Uhr")


def _replace_digits(pair: Pair, draw: random.Random) -> Pair | None:
    months = "|".join(german for _, german in MONTHS)
    source = {x[0].replace(",", ""): x for x in re.finditer(_NUMBER, pair[0])}
    target = {
        re.sub("[. ]", "", x[0]).replace(",", "."): x
        for x in re.finditer(_ZAHL, pair[1])
    }
    common = [x for x in source if x in target and x != "1"]
    if len(common) != 1 or len(source) != 1 or len(target) != 1:
        return None
    number = common[0]
    if pair[0][source[number].end() :].startswith(" o'clock"):
        return None
    german, after = target[number], pair[1][target[number].end() :]
    if re.match(rf"\. ({months})", after):
        text = str(draw.randint(2, 28))
    elif "." in number:
        text = f"{draw.uniform(1, 99):.{len(number.partition('.')[2])}f}"
    elif len(number) == 4 and number[0] in "12":
        text = str(draw.randint(1800, 2035))
    else:
        digits = draw.randint(1, min(len(number) + 1, 6))
        text = f"{draw.randrange(2, 10**digits):,}"
        if len(text) == 5 and draw.random() < 0.5:
            text = text.replace(",", "")
    return (
        _put(pair[0], source[number], text),
        _put(pair[1], german, german_number(text)),
    )


def _replace_words(pair: Pair, draw: random.Random) -> Pair | None:
    source = _once(f"(?i:{_WORD})", pair[0])
    target = _once(f"(?i:{_WORT})", pair[1])
    if not source or not target:
        return None
    if _ENGLISH_WORDS[source[0].lower()] != _GERMAN_WORDS[target[0].lower()]:
        return None
    before, after = pair[0][: source.start()], pair[0][source.end() :]
    danach = pair[1][target.end() :]
    if after.startswith(" o'clock") and danach.startswith(" Uhr"):
        hour = draw.randint(2, 12)
        english, german = number_words(hour)
        if draw.random() < 0.5:
            english = german = str(hour)
    elif (
        re.search(_NOT_AFTER, before, re.I)
        or re.search(_NOT_BEFORE, after)
        or re.search(_NICHT_VOR, danach)
        or re.match(r"[.,!?]", after)
    ):
        return None
    elif draw.random() < 0.5:
        english, german = number_words(draw.randint(2, draw.choice([20, 99])))
    else:
        english = (
            f"{draw.randint(2, draw.choice([20, 20, 99, 99, 999, 9_999])):,}"
        )
        german = german_number(english)
    if not before:
        english = english[:1].upper() + english[1:]
    if not pair[1][: target.start()]:
        german = german[:1].upper() + german[1:]
    return _put(pair[0], source, english), _put(pair[1], target, german)
