"""What a word of the embedded corpus is, and how a line of a table gives it.

The tables are in `lexicon`. They hold the forms that no rule gives; the rules
here make the rest.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

Word = TypeVar("Word")


class Noun(NamedTuple):
    """A noun in both languages.

    Attributes:
        en: English singular.
        en_plural: English plural.
        de: German nominative singular.
        de_oblique: German accusative and dative singular, which differs
            from `de` in the n-declension (der Junge, den Jungen).
        de_plural: German nominative plural.
        gender: `m`, `f` or `n`.
        kinds: What it is, for the choice of verbs and adjectives. The first
            is the kind that its adjectives describe.
    """

    en: str
    en_plural: str
    de: str
    de_oblique: str
    de_plural: str
    gender: str
    kinds: tuple[str, ...]


class Verb(NamedTuple):
    """A verb in both languages.

    Attributes:
        en: English base form.
        en_third: English third person singular, present.
        en_past: English simple past.
        particle: English word right after the verb (look *for*), or empty.
        prefix: German separable prefix (*auf*stehen), or empty.
        de: German infinitive without the prefix.
        ich: German first person singular, present, without the prefix.
        du: Second person singular.
        er: Third person singular.
        participle: German past participle with the prefix.
        auxiliary: `haben` or `sein`, which the perfect is made with.
        objects: Kinds of the nouns that the verb can take.
    """

    en: str
    en_third: str
    en_past: str
    particle: str
    prefix: str
    de: str
    ich: str
    du: str
    er: str
    participle: str
    auxiliary: str
    objects: tuple[str, ...]

    @property
    def infinitive(self) -> str:
        """The German infinitive with the prefix."""
        return self.prefix + self.de


class Adjective(NamedTuple):
    """An adjective: base form, comparative and the stem before an ending."""

    en: str
    en_more: str
    de: str
    de_more: str
    stem: str
    kinds: tuple[str, ...]


class Profession(NamedTuple):
    """A profession: the German man, the woman and the men (plural)."""

    en: str
    man: str
    woman: str
    men: str


class Place(NamedTuple):
    """A place: a noun, and how one is there and how one goes there."""

    noun: Noun
    en_at: str
    de_at: str
    de_to: str


class Phrase(NamedTuple):
    """Fixed words in both languages."""

    en: str
    de: str


def rows(read: Callable[[list[str]], Word], table: str) -> tuple[Word, ...]:
    """Returns the words of a table: a word a line, fields by white space."""
    return tuple(read(line.split()) for line in table.strip().splitlines())


def add_s(word: str) -> str:
    """Returns an English plural or third person singular."""
    if word.endswith(("s", "x", "ch", "sh", "o")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def add_ed(word: str) -> str:
    """Returns a regular English past."""
    if word.endswith("e"):
        return word + "d"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ied"
    return word + "ed"


def read_noun(row: list[str]) -> Noun:
    """Returns a noun: English, German, gender, German plural, kinds."""
    en, de, gender, de_plural, kinds = row
    singular, _, plural = en.partition("/")
    de, _, oblique = de.partition("/")
    return Noun(
        singular,
        plural or add_s(singular),
        de,
        oblique or de,
        de_plural,
        gender,
        tuple(kinds.split(",")),
    )


def read_verb(row: list[str]) -> Verb:
    """Returns a verb; `lexicon` describes the fields."""
    en, particle, de, singular, participle, auxiliary, objects = row
    base, _, past = en.partition("/")
    prefix, _, stem = de.rpartition("|")
    present = [stem[:-1]]
    if singular == "-":
        root = stem.removesuffix("en")
        present.append(root + ("et" if root.endswith(("t", "d")) else "t"))
    elif "/" in singular:
        present = singular.split("/")
    else:
        present.append(singular)
    ich, er = present
    root = er.removesuffix("t") if ich != er else er
    du = root + ("t" if root.endswith(("s", "ß", "z")) else "st")
    return Verb(
        base,
        "has" if base == "have" else add_s(base),
        past or add_ed(base),
        "" if particle == "-" else particle,
        prefix,
        stem,
        ich,
        du,
        er,
        participle,
        auxiliary,
        () if objects == "-" else tuple(objects.split(",")),
    )


def read_adjective(row: list[str]) -> Adjective:
    """Returns a adjective; `lexicon` describes the fields."""
    en, en_more, de, de_more, kinds = row
    de, _, stem = de.partition("/")
    if en_more == "more":
        en_more = f"more {en}"
    return Adjective(
        en, en_more, de, de_more, stem or de, tuple(kinds.split(","))
    )


def read_place(row: list[str]) -> Place:
    """Returns a place: a noun's fields and three prepositions."""
    *noun, en_at, de_at, de_to = row
    return Place(read_noun(noun), en_at, de_at, de_to)
