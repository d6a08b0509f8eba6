"""Noun phrases of the embedded corpus: case, number, gender and endings."""

from typing import NamedTuple

from keras_transformer.text.grammar.words import Adjective, Noun

CASES = ("nominative", "accusative", "dative")
GENDERS = ("m", "f", "n", "plural")

# A row a case, a column a gender.
_THE = (
    ("der", "die", "das", "die"),
    ("den", "die", "das", "die"),
    ("dem", "der", "dem", "den"),
)
_DIES = (
    ("er", "e", "es", "e"),
    ("en", "e", "es", "e"),
    ("em", "er", "em", "en"),
)
_EIN = (
    ("", "e", "", "e"),
    ("en", "e", "", "e"),
    ("em", "er", "em", "en"),
)
# The endings of an adjective after der and dieser (weak), after ein, kein
# and mein (mixed) and where no article is (strong).
_WEAK = (
    ("e", "e", "e", "en"),
    ("en", "e", "e", "en"),
    ("en", "en", "en", "en"),
)
_MIXED = (
    ("er", "e", "es", "en"),
    ("en", "e", "es", "en"),
    ("en", "en", "en", "en"),
)
_STRONG = _DIES

_EIN_WORDS = {
    "a": "ein",
    "no": "kein",
    "my": "mein",
    "your": "dein",
    "his": "sein",
    "her": "ihr",
    "our": "unser",
}
_DIES_WORDS = {"this": "dies", "which": "welch"}
_NUMBERS = {"two": "zwei", "three": "drei", "many": "viele"}

# What German writes in one word, by preposition and article.
_CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("bei", "dem"): "beim",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
}


def determiner(word: str, case: str, gender: str) -> str:
    """Returns the German determiner.

    Args:
        word: The English one (`the`, `this`, `a`, `my`, `two`, ...), `no`
            for kein, or an empty string for none.
        case: One of `CASES`.
        gender: One of `GENDERS`.

    Returns:
        The inflected word; an empty string where German has none.
    """
    row, column = CASES.index(case), GENDERS.index(gender)
    if word == "the":
        return _THE[row][column]
    if word in _DIES_WORDS:
        return _DIES_WORDS[word] + _DIES[row][column]
    if word in _EIN_WORDS:
        if word == "a" and gender == "plural":
            return ""
        return _EIN_WORDS[word] + _EIN[row][column]
    if word == "many" and case == "dative":
        return "vielen"
    return _NUMBERS.get(word, "")


def adjective_ending(word: str, case: str, gender: str) -> str:
    """Returns the ending of an adjective after the determiner `word`."""
    row, column = CASES.index(case), GENDERS.index(gender)
    if word == "the" or word in _DIES_WORDS:
        return _WEAK[row][column]
    if word in _EIN_WORDS and not (word == "a" and gender == "plural"):
        return _MIXED[row][column]
    return _STRONG[row][column]


class NounPhrase(NamedTuple):
    """A noun with its determiner and perhaps an adjective.

    Attributes:
        noun: The noun.
        determiner: The English determiner; empty for none; `one` for a
            profession, which has an article in English only.
        adjective: The adjective before the noun.
        plural: Whether it is in the plural.
    """

    noun: Noun
    determiner: str = "the"
    adjective: Adjective | None = None
    plural: bool = False

    @property
    def gender(self) -> str:
        return "plural" if self.plural else self.noun.gender

    @property
    def person(self) -> str:
        """The pronoun whose form of the verb it takes."""
        return "sie" if self.plural else "er"

    @property
    def is_name(self) -> bool:
        """Whether it names someone; a pronoun does not."""
        return True

    @property
    def indefinite(self) -> bool:
        """Whether it follows the adverbials, and is negated by kein."""
        return self.determiner in ("a", "", "one", "two", "three", "many")

    def english(self, role: str = "object") -> str:
        """Returns the English phrase, the same in every role."""
        noun = self.noun.en_plural if self.plural else self.noun.en
        if self.adjective:
            noun = f"{self.adjective.en} {noun}"
        word = self.determiner
        if word in ("a", "one"):
            word = "" if self.plural else "an" if noun[0] in "aeiou" else "a"
        elif word == "this" and self.plural:
            word = "these"
        return f"{word} {noun}".strip()

    def german(self, case: str, negated: bool = False) -> str:
        """Returns the German phrase, with kein where it is negated."""
        word = "no" if negated and self.indefinite else self.determiner
        words = [determiner(word, case, self.gender)]
        if self.adjective:
            ending = adjective_ending(word, case, self.gender)
            words.append(self.adjective.stem + ending)
        words.append(self._german_noun(case))
        return " ".join(word for word in words if word)

    def _german_noun(self, case: str) -> str:
        if not self.plural:
            nominative = case == "nominative"
            return self.noun.de if nominative else self.noun.de_oblique
        plural = self.noun.de_plural
        if case == "dative" and not plural.endswith(("n", "s")):
            return plural + "n"
        return plural


class Pronoun(NamedTuple):
    """A pronoun or a name: a word that is inflected by case alone.

    Attributes:
        en: English subject.
        en_object: English object.
        nominative: German nominative.
        accusative: German accusative.
        dative: German dative.
        person: `ich`, `du`, `er` (also for sie, es and names) or `sie` (the
            plural, also for wir): the form of the verb.
        gender: `m`, `f`, `n` or `plural`.
        is_name: Whether it names someone; a pronoun does not.
    """

    en: str
    en_object: str
    nominative: str
    accusative: str
    dative: str
    person: str
    gender: str
    is_name: bool = False

    @property
    def indefinite(self) -> bool:
        return False

    def english(self, role: str = "object") -> str:
        """Returns the English word for the role `subject` or `object`."""
        return self.en if role == "subject" else self.en_object

    def german(self, case: str, negated: bool = False) -> str:
        """Returns the German word in one of `CASES`."""
        return getattr(self, case)


Nominal = NounPhrase | Pronoun

I = Pronoun("I", "me", "ich", "mich", "mir", "ich", "m")  # noqa: E741
YOU = Pronoun("you", "you", "du", "dich", "dir", "du", "m")
HE = Pronoun("he", "him", "er", "ihn", "ihm", "er", "m")
SHE = Pronoun("she", "her", "sie", "sie", "ihr", "er", "f")
WE = Pronoun("we", "us", "wir", "uns", "uns", "sie", "plural")
THEY = Pronoun("they", "them", "sie", "sie", "ihnen", "sie", "plural")
WHO = Pronoun("who", "whom", "wer", "wen", "wem", "er", "m")
IT = {
    "m": Pronoun("it", "it", "er", "ihn", "ihm", "er", "m"),
    "f": Pronoun("it", "it", "sie", "sie", "ihr", "er", "f"),
    "n": Pronoun("it", "it", "es", "es", "ihm", "er", "n"),
    "plural": THEY,
}


def name(word: str, gender: str) -> Pronoun:
    """Returns a name, the same in every case."""
    return Pronoun(word, word, word, word, word, "er", gender, is_name=True)


def after(preposition: str, phrase: str) -> str:
    """Returns a German preposition and its phrase, contracted if usual."""
    article, _, rest = phrase.partition(" ")
    contracted = _CONTRACTIONS.get((preposition, article))
    return f"{contracted} {rest}" if contracted else f"{preposition} {phrase}"
