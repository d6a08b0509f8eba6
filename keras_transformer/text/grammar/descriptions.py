"""The patterns of the embedded corpus that say what somebody or something is.

As in `patterns`, a pattern returns the English sentence, the German one and
the mark at their end.
"""

from keras_transformer.text.grammar import lexicon
from keras_transformer.text.grammar.choices import (
    COLOURS,
    NAMES,
    SUBJECT_PRONOUNS,
    Draw,
    adjectives,
    anyone,
    being,
    degree,
    location,
    nouns,
    other,
    relative,
    thing,
    with_time,
)
from keras_transformer.text.grammar.clauses import (
    Clause,
    Sentence,
    asked,
    stated,
)
from keras_transformer.text.grammar.phrases import (
    NounPhrase,
)
from keras_transformer.text.grammar.words import Adjective, Noun, Phrase, add_s

# By gender of who has the profession.
PROFESSION_NOUNS = {
    "m": tuple(
        Noun(p.en, add_s(p.en), p.man, p.man, p.men, "m", ("profession",))
        for p in lexicon.PROFESSIONS
    ),
    "f": tuple(
        Noun(p.en, add_s(p.en), p.woman, p.woman, f"{p.woman}nen", "f", ())
        for p in lexicon.PROFESSIONS
    ),
}


def _profession_clause(draw: Draw) -> Clause:
    if draw.chance(0.6):
        subject = draw.one(SUBJECT_PRONOUNS)
    else:
        subject = draw.one(NAMES) if draw.chance(0.4) else relative(draw)
    noun = draw.one(PROFESSION_NOUNS["f" if subject.gender == "f" else "m"])
    word, described = "one", None
    if draw.chance(0.3):
        word, described = "a", draw.one(adjectives("profession"))
    plural = subject.gender == "plural"
    what = NounPhrase(noun, word, described, plural)
    tense = "past" if draw.chance(0.2) else "present"
    return Clause(subject, lexicon.BE, tense, predicate=what)


def profession(draw: Draw) -> Sentence:
    """Returns `I am a student.`, `She is not a teacher.`."""
    clause = _profession_clause(draw)
    return stated(clause._replace(negated=draw.chance(0.2)))


def profession_question(draw: Draw) -> Sentence:
    """Returns `Is she a teacher?`."""
    return asked(_profession_clause(draw))


def quality(draw: Draw) -> Sentence:
    """Returns `The old house is very big.`."""
    kinds = (
        "text",
        "show",
        "thing",
        "clothes",
        "ride",
        "building",
        "animal",
        "sweet",
    )
    noun = draw.one(nouns(*kinds))
    words = ("the", "this", "the*", "this*")
    if "building" not in noun.kinds and noun.de_plural != "-":
        words += ("my", "her", "our")
    elif noun.de_plural == "-":
        words = ("the", "this")
    what = thing(draw, noun, words)._replace(adjective=None)
    clause = Clause(
        what,
        lexicon.BE,
        "past" if draw.chance(0.2) else "present",
        negated=draw.chance(0.2),
        complement=degree(draw, draw.one(adjectives(*noun.kinds))),
    )
    return asked(clause) if draw.chance(0.2) else stated(clause)


def _measures(kind: str) -> list[Adjective]:
    return [a for a in adjectives(kind) if a.en not in COLOURS]


def comparison(draw: Draw) -> Sentence:
    """Returns `My brother is older than me.`."""
    if draw.chance(0.5):
        first = anyone(draw)
        second = other(draw, first, "accusative")
        word = draw.one(_measures("person"))
    else:
        kind = draw.one(("text", "thing", "ride", "animal", "clothes"))
        noun = draw.one(nouns(kind))
        pair = noun, draw.one([n for n in nouns(kind) if n != noun])
        words = ("the", "this", "my", "your", "the*")
        first, second = (
            thing(draw, noun, words)._replace(adjective=None) for noun in pair
        )
        word = draw.one(_measures(kind))
    than = Phrase(
        f"{word.en_more} than {second.english()}",
        f"{word.de_more} als {second.german('nominative')}",
    )
    clause = Clause(first, lexicon.BE, complement=than)
    return asked(clause) if draw.chance(0.2) else stated(clause)


def state(draw: Draw) -> Sentence:
    """Returns `Anna was tired yesterday.`."""
    clause = being(draw, anyone(draw))
    if draw.chance(0.25):
        return stated(clause._replace(negated=True))
    if draw.chance(0.5):
        times = lexicon.PAST_TIMES
        clause = clause._replace(tense="past", time=draw.one(times))
    elif draw.chance(0.7):
        clause = clause._replace(time=draw.one(lexicon.OFTEN))
    return asked(clause) if draw.chance(0.2) else stated(clause)


def position(draw: Draw) -> Sentence:
    """Returns `The book is on the table.`, `She puts it under the bed.`."""
    what = thing(draw, draw.one(nouns("small")), ("the", "my", "his", "this"))
    where = thing(draw, draw.one(nouns("surface")), ("the", "this", "her"))
    en, de = draw.one(
        (
            ("on", "auf"),
            ("under", "unter"),
            ("next to", "neben"),
            ("behind", "hinter"),
        )
    )
    if draw.chance(0.5):
        at = Phrase(f"{en} {where.english()}", f"{de} {where.german('dative')}")
        clause = Clause(
            what, lexicon.BE, negated=draw.chance(0.2), complement=at
        )
        return asked(clause) if draw.chance(0.3) else stated(clause)
    to = Phrase(f"{en} {where.english()}", f"{de} {where.german('accusative')}")
    clause = Clause(anyone(draw), lexicon.PUT, accusative=what, complement=to)
    return stated(with_time(draw, clause))


def existence(draw: Draw) -> Sentence:
    """Returns `There is a museum in the city.`."""
    if draw.chance(0.5):
        noun = draw.one(nouns("public", "stop"))
        where = location(draw, "town")
    else:
        noun = draw.one(nouns("surface", "power"))
        where = location(draw, "indoor", home=False)
    what = thing(draw, noun, ("a", "a", "two*", "many*"))
    verb = "are" if what.plural else "is"
    if draw.chance(0.3):
        return (
            f"{verb} there {what.english()} {where.en}",
            f"gibt es {what.german('accusative')} {where.de}",
            "?",
        )
    if what.determiner == "a" and draw.chance(0.3):
        english = what._replace(determiner="no").english()
        german = what.german("accusative", negated=True)
    else:
        english, german = what.english(), what.german("accusative")
    return (
        f"there {verb} {english} {where.en}",
        f"es gibt {german} {where.de}",
        ".",
    )


def belonging(draw: Draw) -> Sentence:
    """Returns `The car belongs to my father.`."""
    noun = draw.one(nouns("thing", "clothes", "small", "animal"))
    what = thing(draw, noun, ("the", "this", "the*", "this*"))
    clause = Clause(
        what,
        lexicon.BELONG,
        negated=draw.chance(0.2),
        dative=other(draw, what, "dative"),
    )
    return asked(clause) if draw.chance(0.3) else stated(clause)
