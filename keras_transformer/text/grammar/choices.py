"""Random choices of the embedded corpus: who, what, where, when.

They keep to what makes sense: people read books and drink tea.
"""

import functools
import random
from collections.abc import Sequence
from typing import TypeVar

from keras_transformer.text.grammar import lexicon
from keras_transformer.text.grammar.clauses import Clause
from keras_transformer.text.grammar.phrases import (
    HE,
    SHE,
    THEY,
    WE,
    YOU,
    I,
    Nominal,
    NounPhrase,
    after,
    name,
)
from keras_transformer.text.grammar.words import (
    Adjective,
    Noun,
    Phrase,
    Place,
    Verb,
)

Item = TypeVar("Item")

SUBJECT_PRONOUNS = (I, YOU, HE, SHE, WE, THEY)
NAMES = tuple(name(*each) for each in lexicon.NAMES)
POSSESSIVES = ("my", "your", "his", "her", "our")
_ALL_NOUNS = (
    lexicon.NOUNS
    + lexicon.MASS_NOUNS
    + tuple(place.noun for place in lexicon.PLACES)
)
_BARE = ("language", "sound")


class Draw:
    """A source of random choices that is the same on every Python.

    `random.Random` promises the same sequence from `random()` alone.
    """

    def __init__(self, seed: int):
        self._random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        """Returns True with this probability."""
        return self._random.random() < probability

    def one(self, items: Sequence[Item]) -> Item:
        """Returns one of the items."""
        return items[int(self._random.random() * len(items))]


@functools.cache
def nouns(*kinds: str) -> tuple[Noun, ...]:
    """Returns the nouns of one of these kinds."""
    return tuple(n for n in _ALL_NOUNS if set(n.kinds) & set(kinds))


@functools.cache
def adjectives(*kinds: str) -> tuple[Adjective, ...]:
    """Returns the adjectives for one of these kinds."""
    return tuple(a for a in lexicon.ADJECTIVES if set(a.kinds) & set(kinds))


@functools.cache
def places(*kinds: str) -> tuple[Place, ...]:
    """Returns the places of one of these kinds."""
    return tuple(p for p in lexicon.PLACES if set(p.noun.kinds) & set(kinds))


def adjective(draw: Draw, noun: Noun, probability: float) -> Adjective | None:
    """Returns an adjective for the noun, or None."""
    words = adjectives(*noun.kinds)
    if noun.en in ("child", "boy", "girl"):
        words = tuple(a for a in words if a.en not in ("old", "young"))
    return draw.one(words) if words and draw.chance(probability) else None


# What a thing can be too much, and what nobody likes it for.
TOO = ("old", "big", "small", "expensive", "heavy", "boring", "long", "short")
BAD = ("bad", "boring", "expensive", "heavy", "old")
COLOURS = ("red", "blue", "green", "black", "white")


# Persons.


def relative(draw: Draw) -> NounPhrase:
    """Returns one of somebody's family."""
    noun = draw.one(nouns("parent", "kin"))
    plural = "kin" in noun.kinds and draw.chance(0.2)
    return NounPhrase(noun, draw.one(POSSESSIVES), None, plural)


def person(draw: Draw) -> NounPhrase:
    """Returns a definite person: the old man, this woman, the children."""
    noun = draw.one(nouns("person"))
    if noun.en in ("neighbour", "friend", "colleague"):
        word = draw.one(POSSESSIVES)
    else:
        word = "this" if draw.chance(0.2) else "the"
    return NounPhrase(noun, word, adjective(draw, noun, 0.2), draw.chance(0.25))


def anyone(draw: Draw) -> Nominal:
    """Returns a subject: a pronoun, a name, a relative or a person."""
    if draw.chance(0.5):
        return draw.one((I, YOU, *SUBJECT_PRONOUNS))
    if draw.chance(0.2):
        return draw.one(NAMES)
    return relative(draw) if draw.chance(0.45) else person(draw)


def other(draw: Draw, subject: Nominal, case: str) -> Nominal:
    """Returns a person that a subject has to do with.

    Args:
        draw: Where the choice comes from.
        subject: Who is no possible answer.
        case: The German case: sie would be her as well as them in the
            accusative, so that one has no `them`.
    """
    if draw.chance(0.35):
        everyone = (I, YOU, HE, SHE, WE)
        if case == "dative":
            everyone += (THEY,)
        first = (I, WE)
        return draw.one(
            [
                each
                for each in everyone
                if each != subject and not (each in first and subject in first)
            ]
        )
    if draw.chance(0.15):
        return draw.one([each for each in NAMES if each != subject])
    while True:
        who = relative(draw) if draw.chance(0.5) else person(draw)
        if not isinstance(subject, NounPhrase) or who.noun != subject.noun:
            return who


# Things.


def thing(draw: Draw, noun: Noun, words: Sequence[str] = ()) -> NounPhrase:
    """Returns a noun with a determiner and perhaps an adjective.

    Args:
        draw: Where the choice comes from.
        noun: The noun.
        words: The determiners to choose from, in place of the usual ones of
            the noun. One with a star is for the plural.
    """
    if not words:
        if set(noun.kinds) & set(_BARE):
            words = ("",)
        elif noun.de_plural == "-":
            words = ("", "", "the")
        elif "building" in noun.kinds:
            words = ("the", "the", "a", "this", "the*")
        else:
            words = ("the", "the", "a", "a", "this", "the*", "*", "two*")
            words += ("three*", "this*", "many*", draw.one(POSSESSIVES))
    word = draw.one(words)
    described = adjective(draw, noun, 0.25)
    return NounPhrase(noun, word.rstrip("*"), described, word.endswith("*"))


# The usual determiners that can be negated: nobody says `not two books`.
NEGATABLE = ("the", "the", "a", "a", "this", "the*", "*", "my", "her")
_WORDS = {
    "take": ("the", "the", "a", "this"),
    "know": ("the", "this", "your", "the*"),
    "like": ("the", "this", "her", "*", "*", "the*"),
    "have": ("a", "a", "*", "two*", "many*"),
    "need": ("a", "a", "the", "my", "*", "this"),
}


def item(
    draw: Draw, verb: Verb, subject: Nominal, negated: bool = False
) -> Nominal:
    """Returns an object in the accusative that makes sense with the verb."""
    noun = draw.one(nouns(*verb.objects))
    if set(noun.kinds) & {"person", "kin", "parent"}:
        # With a pronoun English parts the verb: pick him up.
        who = other(draw, subject, "accusative")
        if verb.particle == "up":
            while not who.is_name:
                who = other(draw, subject, "accusative")
        return who
    words: Sequence[str] = ()
    if noun.de_plural == "-":
        return thing(draw, noun)
    if verb.en in _WORDS:
        words = _WORDS[verb.en]
        if negated and verb.en == "have":
            words = ("a", "a", "*")
    elif negated:
        words = NEGATABLE[:7] if "building" in noun.kinds else NEGATABLE
    return thing(draw, noun, words)


# Where and when.


def location(draw: Draw, *kinds: str, home: bool = True) -> Phrase:
    """Returns where someone is, perhaps at home."""
    if "town" in kinds and draw.chance(0.3):
        city = draw.one(lexicon.CITIES)
        return Phrase(f"in {city.en}", f"in {city.de}")
    if home and "indoor" in kinds and draw.chance(0.15):
        return Phrase("at home", "zu Hause")
    place = draw.one(places(*kinds))
    where = NounPhrase(place.noun, "the", adjective(draw, place.noun, 0.2))
    return Phrase(
        f"{place.en_at} {where.english()}",
        after(place.de_at, where.german("dative")),
    )


def direction(draw: Draw, *kinds: str) -> Phrase:
    """Returns where someone goes."""
    if draw.chance(0.08):
        return Phrase("home", "nach Hause")
    place = draw.one(places(*kinds))
    where = NounPhrase(place.noun, "the", adjective(draw, place.noun, 0.2))
    case = "dative" if place.de_to == "zu" else "accusative"
    return Phrase(
        f"to {where.english()}", after(place.de_to, where.german(case))
    )


def with_time(draw: Draw, clause: Clause) -> Clause:
    """Returns the clause in one of the tenses, mostly with a time.

    The past always has a time: it tells `I read` from `I read yesterday`.
    """
    if clause.verb in lexicon.EVENT_VERBS:
        if draw.chance(0.2):
            return clause
        return clause._replace(tense="past", time=draw.one(lexicon.PAST_TIMES))
    if draw.chance(0.5):
        if draw.chance(0.55):
            return clause._replace(
                tense="past", time=draw.one(lexicon.PAST_TIMES)
            )
        return clause._replace(
            tense="future", time=draw.one(lexicon.FUTURE_TIMES)
        )
    if not clause.negated and draw.chance(0.6):
        times = lexicon.OFTEN if draw.chance(0.4) else lexicon.HABITS
        return clause._replace(time=draw.one(times))
    return clause


# What happens.


def transitive(
    draw: Draw, subject: Nominal, verbs: Sequence[Verb], negated: bool = False
) -> Clause:
    """Returns a clause with an object in the accusative."""
    verb = draw.one(verbs)
    return Clause(
        subject,
        verb,
        negated=negated,
        accusative=item(draw, verb, subject, negated),
    )


def giving(draw: Draw, subject: Nominal) -> Clause:
    """Returns a clause with a person in the dative and a thing."""
    verb = draw.one(lexicon.GIVING_VERBS)
    noun = draw.one(nouns(*verb.objects))
    return Clause(
        subject,
        verb,
        dative=other(draw, subject, "dative"),
        accusative=thing(draw, noun),
    )


def helping(draw: Draw, subject: Nominal) -> Clause:
    """Returns a clause with a person in the dative alone."""
    verb = draw.one(lexicon.DATIVE_VERBS)
    return Clause(subject, verb, dative=other(draw, subject, "dative"))


def staying(draw: Draw, subject: Nominal) -> Clause:
    """Returns a clause with a place where something is done."""
    verb = draw.one(lexicon.PLACE_VERBS)
    return Clause(subject, verb, complement=location(draw, *verb.objects))


def going(draw: Draw, subject: Nominal) -> Clause:
    """Returns a clause of motion."""
    if draw.chance(0.25):
        city = draw.one(lexicon.CITIES)
        where = Phrase(f"to {city.en}", f"nach {city.de}")
        verb = draw.one((lexicon.DRIVE, lexicon.TRAVEL))
        return Clause(subject, verb, complement=where)
    if draw.chance(0.3):
        where = direction(draw, "town", "stop")
        return Clause(subject, lexicon.DRIVE, complement=where)
    where = direction(draw, "goal")
    return Clause(subject, lexicon.GO, complement=where)


def action(draw: Draw, subject: Nominal, negated: bool = False) -> Clause:
    """Returns a clause of any kind in which someone does something."""
    if draw.chance(0.45):
        return transitive(draw, subject, lexicon.VERBS, negated)
    if draw.chance(0.15):
        verb = draw.one(lexicon.PLAIN_VERBS)
        clause = Clause(subject, verb)
    else:
        makers = (giving, helping, staying, staying, going)
        clause = draw.one(makers)(draw, subject)
    if negated and clause.accusative:
        words = NEGATABLE if clause.accusative.noun.de_plural != "-" else ()
        clause = clause._replace(
            accusative=thing(draw, clause.accusative.noun, words)
        )
    return clause._replace(negated=negated)


def being(draw: Draw, subject: Nominal, unwell: bool = False) -> Clause:
    """Returns a clause about how someone feels, perhaps only unwell."""
    state = draw.one(lexicon.STATES[2:] if unwell else lexicon.STATES)
    return Clause(subject, lexicon.BE, complement=Phrase(state.en, state.de))


def degree(draw: Draw, word: Adjective) -> Phrase:
    """Returns an adjective, perhaps with very or too."""
    if word.en not in COLOURS and draw.chance(0.4):
        return Phrase(f"very {word.en}", f"sehr {word.de}")
    if word.en in TOO and draw.chance(0.4):
        return Phrase(f"too {word.en}", f"zu {word.de}")
    return Phrase(word.en, word.de)
