"""Names, numbers, dates and addresses in English and German, at random.

`everyday/templates.tsv` has pairs with slots: `{city}` is a city, `{city2}`
a different city. Conventions of the German side: "1.299,99 $", "3 €", "25 %",
"15:30 Uhr", "5. Mai 2024"; numeric dates and telephone numbers are copied.
"""

import collections
import datetime
import random
import re
from collections.abc import Callable

from everyday_lists import (
    CITIES,
    COUNTRIES,
    FAMILY,
    FEMALE,
    MALE,
    MONTHS,
    THINGS,
    WEEKDAYS,
    Pair,
    german_number,
    number_words,
    ordinal,
)

_SIGNS = "… ~ | [ ] < > ^ ½ ¼ × ÷ → ← ™ ® © ± µ ² ³ ✓ ★ = + * # % & _".split()
_PHONES = [
    "0## ######",
    "0### #######",
    "0##/######",
    "0##-########",
    "0### ## ## ##",
    "08## ### ###",
    "+49 1## #######",
    "+49 ## ######",
    "+44 20 #### ####",
    "+43 ### ######",
    "+1 ###-###-####",
    "(###) ###-####",
    "###-####",
    "######",
    "11#",
]
_APPS = "WhatsApp Instagram YouTube Telegram LinkedIn Discord Facebook".split()


def _letter_chain(names: list[str]) -> dict[str, list[str]]:
    """Returns the letters that follow two letters in names."""
    chain = collections.defaultdict(list)
    for name in filter(str.isalpha, names):
        letters = f"\n\n{name}\n"
        for i, letter in enumerate(letters[2:]):
            chain[letters[i : i + 2]].append(letter)
    return chain


_NAMES = {
    slot: (names, _letter_chain(names))
    for slot, names in (("m", MALE), ("f", FEMALE), ("fam", FAMILY))
}


class Slots:
    """Draws pairs of values, and fills templates with them."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self._values: dict[str, Callable[[], Pair | str]] = {
            "m": self.male,
            "f": self.female,
            "n": self.first_name,
            "nn": self.full_name,
            "fam": self.family,
            "city": lambda: draw.choice(CITIES),
            "land": lambda: draw.choice(COUNTRIES),
            "thing": lambda: draw.choice(THINGS),
            "app": lambda: draw.choice(_APPS),
            "int": lambda: str(draw.randint(2, draw.choice([12, 30, 99, 250]))),
            "num": self.cardinal,
            "dec": self.decimal,
            "w": lambda: number_words(draw.randint(2, draw.choice([20, 100]))),
            "money": self.money,
            "pct": self.percent,
            "date": self.date,
            "dm": self.day_and_month,
            "nd": self.numeric_date,
            "wd": lambda: draw.choice(WEEKDAYS),
            "wds": self.weekdays,
            "mon": lambda: draw.choice(MONTHS),
            "yr": lambda: str(draw.randint(1850, 2035)),
            "time": self.time,
            "phone": self.phone,
            "ord": self.ordinal,
            "code": self.code,
            "url": self.url,
            "mail": self.mail,
            "file": self.file,
            "at": lambda: "@" + self.identifier(),
            "tag": lambda: "#" + self.identifier(),
            "sign": lambda: draw.choice(_SIGNS),
            "dist": lambda: self.unit("km m miles meters kilometers feet"),
            "weight": lambda: self.unit("kg g kilos grams pounds kilograms"),
            "vol": lambda: self.unit("l ml liters litres milliliters"),
            "temp": lambda: self.unit("°C °F degrees °C", 100),
            "speed": lambda: self.unit("km/h mph"),
            "size": lambda: self.unit("KB MB GB TB gigabytes megabytes"),
            "area": lambda: self.unit("m² square_meters"),
        }

    def fill(self, template: Pair) -> Pair:
        """Returns the pair with values for its slots."""
        values = {}
        for name in re.findall(r"\{(\w+)\}", template[0]):
            while name not in values:
                value = self._values[name.rstrip("23")]()
                pair = (value, value) if isinstance(value, str) else value
                if pair[1] not in [german for _, german in values.values()]:
                    values[name] = pair
        filled = (
            template[side].format(**{x: y[side] for x, y in values.items()})
            for side in (0, 1)
        )
        return tuple(map(_tidy, filled))

    def male(self) -> str:
        return self._name("m")

    def female(self) -> str:
        return self._name("f")

    def first_name(self) -> str:
        return self._name(self.draw.choice("mf"))

    def family(self) -> str:
        return self._name("fam")

    def full_name(self, first: str | None = None) -> str:
        first = first or self.first_name()
        if self.draw.random() < 0.05:
            first += f" {self.draw.choice('ABCDEFGHJKLMNPRSTW')}."
        family = self.family()
        if self.draw.random() < 0.04:
            family += f"-{self.draw.choice(FAMILY)}"
        return f"{first} {family}"

    def _name(self, slot: str) -> str:
        """Returns a name of the list or, as often, an invented name.

        Names that never repeat teach a model to copy instead of to remember.
        """
        names, chain = _NAMES[slot]
        if self.draw.random() < 0.5:
            return self.draw.choice(names)
        while True:
            name = "\n\n" + self.draw.choice(chain["\n\n"])
            while name[-1] != "\n" and len(name) < 16:
                name += self.draw.choice(chain[name[-2:]])
            if name[-1] == "\n" and len(name) > 5:
                return name[2:-1]

    def cardinal(self) -> Pair:
        number = self.draw.randrange(2, 10 ** self.draw.randint(2, 7))
        plain = number < 10_000 and self.draw.random() < 0.5
        text = str(number) if plain else f"{number:,}"
        return text, german_number(text)

    def decimal(self) -> Pair:
        number = self.draw.uniform(0, 10 ** self.draw.randint(0, 3))
        text = f"{number:.{self.draw.choice([1, 1, 2, 2, 3])}f}"
        return text, german_number(text)

    def money(self) -> Pair:
        draw = self.draw
        number = draw.randrange(2, 10 ** draw.randint(1, 5))
        chance = draw.random()
        if chance < 0.45:
            text = f"{number:,}"
        elif chance < 0.55:
            text = str(number)
        else:
            text = (
                f"{number:,}.{draw.choice([0, 50, 99, draw.randrange(100)]):02}"
            )
        german = german_number(text)
        chance = draw.random()
        if chance < 0.5:
            sign = draw.choice("$$€€€££¥")
            return f"{sign}{text}", f"{german} {sign}"
        if chance < 0.58:
            sign = draw.choice(["€", " €", "$", " $", "£"])
            return f"{text}{sign}", f"{german} {sign.strip()}"
        if chance < 0.64:
            code = draw.choice(["EUR", "USD", "CHF", "GBP"])
            before = draw.random() < 0.5
            source = f"{code} {text}" if before else f"{text} {code}"
            return source, f"{german} {code}"
        if chance < 0.72:
            words = draw.choice(
                [("million", "Millionen"), ("billion", "Milliarden")]
            )
            amount = draw.choice(
                [str(draw.randint(2, 900)), f"{draw.uniform(1.1, 9.9):.1f}"]
            )
            sign, name = draw.choice(
                [("$", "Dollar"), ("€", "Euro"), ("£", "Pfund")]
            )
            german = f"{german_number(amount)} {words[1]} {name}"
            if draw.random() < 0.6:
                return f"{sign}{amount} {words[0]}", german
            plural = {"Dollar": "dollars", "Euro": "euros", "Pfund": "pounds"}
            return f"{amount} {words[0]} {plural[name]}", german
        names = draw.choice(
            [
                *2 * ["dollars Dollar", "euros Euro"],
                *["pounds Pfund", "yen Yen", "francs Franken"],
                *["cents Cent", "rupees Rupien", "kronor Kronen"],
            ]
        )
        english, name = names.split()
        if draw.random() < 0.12:
            words = number_words(draw.randint(2, 100))
            return f"{words[0]} {english}", f"{words[1]} {name}"
        return f"{text} {english}", f"{german} {name}"

    def percent(self) -> Pair:
        number = str(self.draw.randint(2, 100))
        if self.draw.random() < 0.3:
            number = f"{self.draw.uniform(0, 99):.1f}"
        german = german_number(number)
        if self.draw.random() < 0.35:
            return f"{number} percent", f"{german} Prozent"
        space = self.draw.choice(["", "", "", " "])
        return f"{number}{space}%", f"{german} %"

    def day_and_month(self) -> Pair:
        day, month = self.draw.randint(1, 28), self.draw.choice(MONTHS)
        english = self.draw.choice(
            [
                f"{month[0]} {day}",
                f"{month[0]} {day}",
                f"{month[0]} {ordinal(day)}",
                f"{day} {month[0]}",
                f"{ordinal(day)} {month[0]}",
                f"the {ordinal(day)} of {month[0]}",
            ]
        )
        return english, f"{day}. {month[1]}"

    def date(self) -> Pair:
        english, german = self.day_and_month()
        year = self.draw.randint(1900, 2035)
        comma = "," if re.search(r"\d(st|nd|rd|th)?$", english) else ""
        return f"{english}{comma} {year}", f"{german} {year}"

    def numeric_date(self) -> str:
        date = datetime.date(1950, 1, 1)
        date += datetime.timedelta(self.draw.randrange(31_000))
        forms = "%d/%m/%Y %m/%d/%Y %d.%m.%Y %Y-%m-%d %d/%m/%y %d-%m-%Y %d/%m"
        return date.strftime(self.draw.choice(forms.split()))

    def weekdays(self) -> Pair:
        english, german = self.draw.choice(WEEKDAYS)
        return f"{english}s", f"{german.lower()}s"

    def time(self) -> Pair:
        draw = self.draw
        minute = draw.choice([0, 5, 15, 30, 45, draw.randrange(60)])
        if draw.random() < 0.25:
            hour = draw.randrange(24)
            return f"{hour}:{minute:02}", f"{hour}:{minute:02} Uhr"
        hour = draw.randint(1, 12)
        if draw.random() < 0.2:
            return f"{hour} o'clock", f"{hour} Uhr"
        afternoon = draw.random() < 0.6
        english = f"{hour}:{minute:02}" if minute else str(hour)
        if not minute and draw.random() < 0.3:
            english = f"{hour}:00"
        half = draw.choice([" pm", " p.m.", "pm", " PM"])
        if not afternoon:
            half = half.replace("p", "a").replace("P", "A")
        hour = hour % 12 + 12 * afternoon
        german = f"{hour}:{minute:02}" if ":" in english else str(hour)
        return english + half, f"{german} Uhr"

    def phone(self) -> str:
        shape = self.draw.choice(_PHONES)
        return re.sub("#", lambda _: str(self.draw.randrange(10)), shape)

    def ordinal(self) -> Pair:
        number = self.draw.randint(2, self.draw.choice([12, 99]))
        return ordinal(number), f"{number}."

    def unit(self, names: str, most: int = 900) -> Pair:
        name = self.draw.choice(names.split()).replace("_", " ")
        number = str(self.draw.randint(2, self.draw.choice([20, 100, most])))
        if self.draw.random() < 0.25:
            number = f"{self.draw.uniform(1, 40):.1f}"
        words = {
            "miles": "Meilen",
            "meters": "Meter",
            "kilometers": "Kilometer",
            "feet": "Fuß",
            "kilos": "Kilo",
            "grams": "Gramm",
            "pounds": "Pfund",
            "kilograms": "Kilogramm",
            "liters": "Liter",
            "litres": "Liter",
            "milliliters": "Milliliter",
            "degrees": "Grad",
            "gigabytes": "Gigabyte",
            "megabytes": "Megabyte",
            "square meters": "Quadratmeter",
        }
        german = f"{german_number(number)} {words.get(name, name)}"
        attached = name not in words and self.draw.random() < 0.4
        return f"{number}{'' if attached else ' '}{name}", german

    def code(self) -> str:
        shapes = "AA-##### A### ### AA ### AA#### ##-### #### ###### AAA-###"
        shapes += " #A A-#### ####-#### A##-A## ########"
        shape = self.draw.choice(shapes.split())
        letters = "ABCDEFGHJKLMNPRSTUVWXYZ"
        shape = re.sub("A", lambda _: self.draw.choice(letters), shape)
        return re.sub("#", lambda _: str(self.draw.randrange(10)), shape)

    def identifier(self) -> str:
        """Returns a word as in addresses: "max_weber", "holiday24"."""
        draw = self.draw
        words = "info news shop home mail summer holiday love music photo my "
        words += "team data blog green book travel cat dog test web open sky"
        parts = [
            draw.choice([*words.split(), *(self.family().lower(),) * 12])
            for _ in range(draw.randint(1, 2))
        ]
        text = draw.choice(["", "_", "-", "."]).join(parts)
        if draw.random() < 0.3:
            text += str(draw.randrange(100))
        return re.sub(r"[^a-z0-9_.-]", "", text) or "info"

    def _host(self) -> str:
        name = self.identifier().replace("_", "-").replace(".", "-")
        ends = "com org de net eu co.uk io at ch info edu"
        return f"{name}.{self.draw.choice(ends.split())}"

    def url(self) -> str:
        draw = self.draw
        url = draw.choice(["https://", "https://www.", "http://", "www."])
        url += self._host()
        for _ in range(draw.choice([0, 0, 1, 2])):
            url += "/" + self.identifier()
        if draw.random() < 0.2:
            url += draw.choice([f"?id={draw.randrange(10**4)}", ".html"])
        return url

    def mail(self) -> str:
        name = self.draw.choice([MALE, FEMALE, FAMILY])
        name = re.sub("[^a-z]", "", self.draw.choice(name).lower()) or "info"
        if self.draw.random() < 0.5:
            name += self.draw.choice([".", "_", ""]) + self.identifier()
        return f"{name}@{self._host()}"

    def file(self) -> str:
        draw = self.draw
        name = self.identifier()
        if draw.random() < 0.4:
            words = "Report Invoice Photo IMG Letter Rechnung Plan Notes CV"
            name = f"{draw.choice(words.split())}_{draw.randrange(10**4)}"
        ends = "pdf docx jpg png txt xlsx zip mp3 mp4 csv pptx py html odt"
        name = f"{name}.{draw.choice(ends.split())}"
        if draw.random() < 0.1:
            name = draw.choice(["C:\\Users\\", "/home/", "./"]) + name
        return name


def _tidy(text: str) -> str:
    """Returns a text with one full stop, and a capital if a word is first."""
    text = re.sub(r"\.\.(?!\.)", ".", text)
    is_word = re.match("[a-zäöüß]+(-[a-z]+)?( |$)", text)
    return text[:1].upper() + text[1:] if is_word else text
