"""Names, places and words of numbers and dates, in English and German."""

from pathlib import Path

FOLDER = Path(__file__).parent / "everyday"
Pair = tuple[str, str]


def read_lines(name: str) -> list[str]:
    """Returns the lines of a file of this benchmark without comments."""
    lines = (FOLDER / name).read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def read_pairs(name: str) -> list[Pair]:
    """Returns the pairs of a table without header."""
    return [tuple(line.split("\t")[:2]) for line in read_lines(name)]


MALE = read_lines("male_names.txt")
FEMALE = read_lines("female_names.txt")
FAMILY = read_lines("family_names.txt")
CITIES = read_pairs("cities.tsv")
COUNTRIES = read_pairs("countries.tsv")
THINGS = read_lines("names_of_things.txt")
_WEEKDAYS = (
    "Monday Montag Tuesday Dienstag Wednesday Mittwoch Thursday Donnerstag "
    "Friday Freitag Saturday Samstag Sunday Sonntag"
).split()
_MONTHS = (
    "January Januar February Februar March März April April May Mai June Juni "
    "July Juli August August September September October Oktober November "
    "November December Dezember"
).split()
WEEKDAYS = list(zip(_WEEKDAYS[::2], _WEEKDAYS[1::2], strict=True))
MONTHS = list(zip(_MONTHS[::2], _MONTHS[1::2], strict=True))
_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve "
    "thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_GERMAN_ONES = (
    "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf "
    "dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn"
).split()
_GERMAN_TENS = (
    "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"
).split()


def number_words(number: int) -> Pair:
    """Returns a number from 2 to 100 in words."""
    if number == 100:
        return "a hundred", "hundert"
    if number < 20:
        return _ONES[number], _GERMAN_ONES[number]
    tens, ones = number // 10 - 2, number % 10
    english, german = _TENS[tens], _GERMAN_TENS[tens]
    if ones:
        english = f"{english}-{_ONES[ones]}"
        german = f"{_GERMAN_ONES[ones]}und{german}"
    return english, german


def german_number(text: str) -> str:
    """Returns an English number with German marks: "1.299,99"."""
    return text.translate(str.maketrans(",.", ".,"))


def ordinal(number: int) -> str:
    """Returns "21st" or "12th"."""
    last = 0 if number % 100 in (11, 12, 13) else number % 10
    return str(number) + {1: "st", 2: "nd", 3: "rd"}.get(last, "th")
