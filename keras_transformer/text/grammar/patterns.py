"""The patterns of the embedded corpus in which someone does something.

A pattern takes a `Draw` and returns an English sentence, the German one and
the mark at their end; capitals and the mark itself are put on by `corpus`.
"""

from keras_transformer.text.grammar import lexicon
from keras_transformer.text.grammar.choices import (
    Draw,
    action,
    anyone,
    giving,
    going,
    helping,
    location,
    nouns,
    other,
    staying,
    thing,
    transitive,
    with_time,
)
from keras_transformer.text.grammar.clauses import (
    CAN,
    LIKE_TO,
    MAY,
    MUST,
    SHOULD,
    WANT,
    WOULD_LIKE,
    Clause,
    Sentence,
    asked,
    english_question,
    english_statement,
    german_question,
    german_statement,
    stated,
)
from keras_transformer.text.grammar.phrases import (
    Nominal,
    after,
)
from keras_transformer.text.grammar.words import Phrase, Verb

_PARTED = tuple(verb for verb in lexicon.VERBS if verb.prefix)


def doing(draw: Draw) -> Sentence:
    """Returns `She reads the book every day.`."""
    clause = transitive(draw, anyone(draw), lexicon.VERBS)
    return stated(with_time(draw, clause))


def parted(draw: Draw) -> Sentence:
    """Returns `He turns on the lamp.`, with a separable verb."""
    clause = transitive(draw, anyone(draw), _PARTED)
    return stated(with_time(draw, clause))


def event(draw: Draw) -> Sentence:
    """Returns `I lost the key yesterday.`."""
    clause = transitive(draw, anyone(draw), lexicon.EVENT_VERBS)
    return stated(with_time(draw, clause))


def having(draw: Draw) -> Sentence:
    """Returns `I have a red car.`, `He does not know her.`."""
    negated = draw.chance(0.25)
    subject = anyone(draw)
    clause = transitive(draw, subject, lexicon.STATIVE_VERBS, negated)
    if not negated and draw.chance(0.25):
        return asked(clause)
    return stated(clause)


def negation(draw: Draw) -> Sentence:
    """Returns `He did not buy the book yesterday.`."""
    clause = action(draw, anyone(draw), negated=True)
    return stated(with_time(draw, clause))


def question(draw: Draw) -> Sentence:
    """Returns `Does he work in the garden?`."""
    return asked(with_time(draw, action(draw, anyone(draw))))


def gift(draw: Draw) -> Sentence:
    """Returns `I give the man the book.`."""
    return stated(with_time(draw, giving(draw, anyone(draw))))


def help_(draw: Draw) -> Sentence:
    """Returns `We help the children.`."""
    return stated(with_time(draw, helping(draw, anyone(draw))))


def place(draw: Draw) -> Sentence:
    """Returns `They play in the park.`."""
    return stated(with_time(draw, staying(draw, anyone(draw))))


def motion(draw: Draw) -> Sentence:
    """Returns `He goes to school.`."""
    return stated(with_time(draw, going(draw, anyone(draw))))


def plain(draw: Draw) -> Sentence:
    """Returns `The child gets up.`."""
    clause = Clause(anyone(draw), draw.one(lexicon.PLAIN_VERBS))
    return stated(with_time(draw, clause))


def living(draw: Draw) -> Sentence:
    """Returns `They live in Berlin.`."""
    subject = anyone(draw)
    if draw.chance(0.3):
        who = other(draw, subject, "dative")
        de = after("bei", who.german("dative"))
        where = Phrase(f"with {who.english()}", de)
    else:
        where = location(draw, "town")
    clause = Clause(
        subject, lexicon.LIVE, negated=draw.chance(0.2), complement=where
    )
    return asked(clause) if draw.chance(0.3) else stated(clause)


def _verbs(*words: str) -> tuple[Verb, ...]:
    return tuple(
        verb
        for verb in lexicon.VERBS + lexicon.PLACE_VERBS
        if verb.en in words and not verb.particle
    )


_DANCE, _PLAY, _SING, _WAIT, _WORK = sorted(
    _verbs("dance", "play", "sing", "wait", "work"), key=lambda verb: verb.en
)
_PEOPLE = ("person", "kin", "parent")
# A verb, its preposition in both languages, the case, kinds of objects.
_PREPOSITIONS = (
    (_WAIT, "for", "auf", "accusative", ()),
    (_WAIT, "for", "auf", "accusative", ("ride", "mail")),
    (lexicon.THINK, "of", "an", "accusative", ()),
    (lexicon.TALK, "about", "über", "accusative", ()),
    (lexicon.TALK, "about", "über", "accusative", ("text", "show")),
    (lexicon.TALK, "to", "mit", "dative", ()),
    (_PLAY, "with", "mit", "dative", ()),
    (_PLAY, "with", "mit", "dative", ("animal",)),
    (_DANCE, "with", "mit", "dative", ()),
    (_WORK, "for", "für", "accusative", ()),
    (_SING, "for", "für", "accusative", ()),
    (lexicon.TRAVEL, "without", "ohne", "accusative", ()),
    (lexicon.GO, "through", "durch", "accusative", ("open", "town")),
    (lexicon.COME, "from", "aus", "dative", ("indoor", "public", "open")),
)


def preposition(draw: Draw) -> Sentence:
    """Returns `She waits for the bus.`."""
    verb, en, de, case, kinds = draw.one(_PREPOSITIONS)
    subject = anyone(draw)
    if kinds:
        noun = draw.one(nouns(*kinds))
        words = ("the", "the", "this")
        if "building" not in noun.kinds:
            words = ("the", "a", "my", "the*")
        what: Nominal = thing(draw, noun, words)
    else:
        what = other(draw, subject, case)
    complement = Phrase(f"{en} {what.english()}", after(de, what.german(case)))
    clause = Clause(subject, verb, complement=complement)
    if draw.chance(0.2):
        clause = clause._replace(negated=True)
    clause = with_time(draw, clause)
    return asked(clause) if draw.chance(0.2) else stated(clause)


_FOR = _verbs("buy", "cook", "repair", "wash", "paint")


def favour(draw: Draw) -> Sentence:
    """Returns `I buy a present for my mother.`."""
    subject = anyone(draw)
    clause = transitive(draw, subject, _FOR)
    who = other(draw, subject, "accusative")
    whom = Phrase(f"for {who.english()}", f"für {who.german('accusative')}")
    return stated(with_time(draw, clause._replace(complement=whom)))


def fronted(draw: Draw) -> Sentence:
    """Returns `Tomorrow I will buy the book.`."""
    clause = action(draw, anyone(draw))
    past = draw.chance(0.5)
    clause = clause._replace(tense="past" if past else "future")
    time = draw.one(lexicon.PAST_TIMES if past else lexicon.FUTURE_TIMES)
    return (
        f"{time.en} {english_statement(clause)}",
        german_statement(clause, front=time.de),
        ".",
    )


def modal(draw: Draw) -> Sentence:
    """Returns `She wants to buy the book tomorrow.`."""
    verb = draw.one((CAN, CAN, MUST, WANT, WANT, SHOULD, MAY, WOULD_LIKE))
    negated = verb is not MUST and draw.chance(0.25)
    clause = action(draw, anyone(draw), negated)._replace(modal=verb)
    if draw.chance(0.5):
        clause = clause._replace(time=draw.one(lexicon.FUTURE_TIMES))
    if not negated and draw.chance(0.25):
        return asked(clause)
    return stated(clause)


def liking(draw: Draw) -> Sentence:
    """Returns `I like to read books.`."""
    subject = anyone(draw)
    if draw.chance(0.6):
        verbs = _verbs("read", "write", "buy", "eat", "cook", "drink")
        verbs += _verbs("learn", "speak", "paint", "hear")
        verb = draw.one(verbs)
        noun = draw.one(nouns(*verb.objects))
        words = ("",) if noun.de_plural == "-" else ("*",)
        clause = Clause(subject, verb, accusative=thing(draw, noun, words))
    else:
        clause = staying(draw, subject)
    negated = draw.chance(0.2)
    gern = Phrase("", "nicht gern" if negated else "gern")
    english = clause._replace(modal=LIKE_TO, negated=negated)
    german = clause._replace(time=gern)
    if not negated and draw.chance(0.3):
        return english_question(english), german_question(german), "?"
    return english_statement(english), german_statement(german), "."
