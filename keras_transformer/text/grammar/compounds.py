"""The patterns of the embedded corpus with more than one clause.

As in `patterns`, a pattern returns the English sentence, the German one and
the mark at their end.
"""

from collections.abc import Sequence

from keras_transformer.text.grammar import lexicon
from keras_transformer.text.grammar.choices import (
    BAD,
    COLOURS,
    NAMES,
    SUBJECT_PRONOUNS,
    TOO,
    Draw,
    action,
    adjectives,
    anyone,
    being,
    giving,
    going,
    helping,
    location,
    nouns,
    person,
    relative,
    staying,
    thing,
    transitive,
    with_time,
)
from keras_transformer.text.grammar.clauses import (
    CAN,
    MUST,
    WANT,
    Clause,
    Sentence,
    english_infinitive,
    english_question,
    english_statement,
    german_infinitive,
    german_question,
    german_statement,
    german_subordinate,
)
from keras_transformer.text.grammar.descriptions import PROFESSION_NOUNS
from keras_transformer.text.grammar.phrases import (
    HE,
    IT,
    SHE,
    THEY,
    WHO,
    YOU,
    Nominal,
    NounPhrase,
    Pronoun,
    determiner,
)
from keras_transformer.text.grammar.words import Adjective, Noun, Phrase, Verb

_WEATHER = NounPhrase(
    Noun("weather", "-", "Wetter", "Wetter", "-", "n", ("weather",))
)
_WEATHERS = (
    Phrase("good", "gut"),
    Phrase("bad", "schlecht"),
    Phrase("cold", "kalt"),
    Phrase("warm", "warm"),
)
_IMPORTANT = (
    Phrase("important", "wichtig"),
    Phrase("difficult", "schwierig"),
    Phrase("easy", "einfach"),
)


def _again(subject: Nominal) -> Nominal:
    """Returns the pronoun for a subject that was named before."""
    if not subject.is_name:
        return subject
    return {"m": HE, "f": SHE, "plural": THEY}[subject.gender]


def _adult(draw: Draw) -> Nominal:
    """Returns a subject that is `he`, `she` or `they` when named again."""
    while True:
        subject = anyone(draw)
        if subject.gender != "n":
            return subject


def _able(draw: Draw, clause: Clause) -> Clause:
    """Returns the clause with a modal verb or in the future, or as it is."""
    if draw.chance(0.4):
        return clause._replace(modal=draw.one((CAN, MUST, WANT)))
    return clause._replace(tense="future") if draw.chance(0.3) else clause


def _known(words: Sequence[str]) -> list[Verb]:
    verbs = lexicon.VERBS + lexicon.STATIVE_VERBS
    return [verb for verb in verbs if verb.en in words]


def _joined(
    first: Clause, english: str, german: str, second: Clause
) -> Sentence:
    """Returns a statement and a subordinate clause after it."""
    return (
        f"{english_statement(first)} {english} {english_statement(second)}",
        f"{german_statement(first)}, {german} {german_subordinate(second)}",
        ".",
    )


def _led(english: str, german: str, first: Clause, second: Clause) -> Sentence:
    """Returns a subordinate clause and a statement after it."""
    return (
        f"{english} {english_statement(first)}, {english_statement(second)}",
        f"{german} {german_subordinate(first)}, {german_question(second)}",
        ".",
    )


def because(draw: Draw) -> Sentence:
    """Returns `She is tired because she works every day.`."""
    subject = _adult(draw)
    again = _again(subject)
    if draw.chance(0.5):
        first = being(draw, subject)
        second = with_time(draw, action(draw, again))
    elif draw.chance(0.5):
        first, second = action(draw, subject), being(draw, again)
    else:
        first = action(draw, subject, negated=True)
        first = first._replace(modal=draw.one((CAN, WANT)))
        second = being(draw, again, unwell=True)
    return _joined(first, "because", "weil", second)


def because_it(draw: Draw) -> Sentence:
    """Returns `I buy the lamp because it is cheap.` (weil sie billig ist)."""
    verb = draw.one(_known(("buy", "like", "read")))
    kinds = [k for k in verb.objects if k in ("thing", "clothes", "text")]
    noun = draw.one(nouns(*kinds))
    what = thing(draw, noun, ("the", "this", "the*", "this*"))
    negated = draw.chance(0.3)
    clause = Clause(
        anyone(draw),
        verb,
        negated=negated,
        accusative=what._replace(adjective=None),
    )
    if draw.chance(0.3) and verb.en != "like":
        clause = clause._replace(modal=WANT)
    words = adjectives(*noun.kinds)
    if negated:
        word = draw.one([word for word in words if word.en in TOO])
        reason = Phrase(f"too {word.en}", f"zu {word.de}")
    else:
        word = draw.one([word for word in words if word.en not in BAD])
        reason = Phrase(word.en, word.de)
        if word.en not in COLOURS and draw.chance(0.3):
            reason = Phrase(f"very {word.en}", f"sehr {word.de}")
    second = Clause(IT[what.gender], lexicon.BE, complement=reason)
    return _joined(clause, "because", "weil", second)


def that(draw: Draw) -> Sentence:
    """Returns `I know that he bought the car yesterday.`."""
    knowing = lexicon.KNOW, lexicon.BELIEVE
    verb = draw.one((*knowing, lexicon.SAY, lexicon.HOPE, lexicon.THINK))
    negated = verb in knowing and draw.chance(0.25)
    subject = draw.one(SUBJECT_PRONOUNS + NAMES)
    main = Clause(subject, verb, negated=negated)
    second = anyone(draw)
    if draw.chance(0.25):
        clause = being(draw, second)
    else:
        clause = with_time(draw, action(draw, second))
    return _joined(main, "that", "dass", clause)


def if_(draw: Draw) -> Sentence:
    """Returns `If the weather is good, we go to the park.`."""
    if draw.chance(0.5):
        weather = draw.one(_WEATHERS)
        condition = Clause(_WEATHER, lexicon.BE, complement=weather)
        subject = anyone(draw)
    else:
        named = _adult(draw)
        condition = being(draw, named)
        subject = _again(named)
    maker = draw.one((action, going, staying))
    result = _able(draw, maker(draw, subject))
    if draw.chance(0.5):
        return _led("if", "wenn", condition, result)
    return _joined(result, "if", "wenn", condition)


def although(draw: Draw) -> Sentence:
    """Returns `Although he is ill, he works in the garden.`."""
    named = _adult(draw)
    first = being(draw, named, unwell=True)
    result = _able(draw, action(draw, _again(named)))
    return _led("although", "obwohl", first, result)


def when_past(draw: Draw) -> Sentence:
    """Returns `When I was a student, I lived in Berlin.`."""
    named = relative(draw) if draw.chance(0.3) else None
    named = named or draw.one(SUBJECT_PRONOUNS + NAMES)
    first = Clause(named, lexicon.BE, "past")
    if draw.chance(0.7):
        noun = draw.one(PROFESSION_NOUNS["f" if named.gender == "f" else "m"])
        what = NounPhrase(noun, "one", None, named.gender == "plural")
        first = first._replace(predicate=what)
    else:
        first = first._replace(complement=Phrase("young", "jung"))
    again = _again(named)
    if draw.chance(0.3):
        where = location(draw, "town")
        second = Clause(again, lexicon.LIVE, complement=where)
    else:
        second = action(draw, again)._replace(time=draw.one(lexicon.OFTEN))
    return _led("when", "als", first, second._replace(tense="past"))


def _opening(draw: Draw) -> Sentence:
    """Returns `Do you know`, `She does not know` or `They ask`."""
    if draw.chance(0.3):
        main = Clause(draw.one((YOU, SHE, THEY, *NAMES)), lexicon.KNOW)
        return english_question(main), german_question(main), "?"
    subject = draw.one(SUBJECT_PRONOUNS + NAMES)
    if draw.chance(0.7):
        main = Clause(subject, lexicon.KNOW, negated=True)
    else:
        main = Clause(subject, lexicon.ASK)
    return english_statement(main), german_statement(main), "."


def whether(draw: Draw) -> Sentence:
    """Returns `I do not know whether she is ill.`."""
    second = anyone(draw)
    if draw.chance(0.3):
        clause = being(draw, second)
    else:
        clause = with_time(draw, action(draw, second))
    english, german, mark = _opening(draw)
    return (
        f"{english} whether {english_statement(clause)}",
        f"{german}, ob {german_subordinate(clause)}",
        mark,
    )


def indirect(draw: Draw) -> Sentence:
    """Returns `Do you know where he works?`."""
    subject = anyone(draw)
    en, de = draw.one((("where", "wo"), ("when", "wann"), ("why", "warum")))
    if en == "where":
        verb = draw.one((*lexicon.PLACE_VERBS, lexicon.LIVE, lexicon.LIVE))
        clause = Clause(subject, verb)
    else:
        tense = "past" if draw.chance(0.7) else "future"
        clause = action(draw, subject)._replace(tense=tense)
    english, german, mark = _opening(draw)
    return (
        f"{english} {en} {english_statement(clause)}",
        f"{german}, {de} {german_subordinate(clause)}",
        mark,
    )


def _described(
    draw: Draw,
    head: NounPhrase,
    english: str,
    german: str,
    words: Sequence[Adjective],
) -> Sentence:
    """Returns `The man who buys the car is rich.`.

    Args:
        draw: Where the adjective comes from.
        head: The man.
        english: Who buys the car.
        german: The same in German.
        words: The adjectives to choose from.
    """
    en = f"{head.english()} {english}"
    de = f"{head.german('nominative')}, {german},"
    subject = Pronoun(en, en, de, "", "", head.person, head.gender)
    word = draw.one(words)
    main = Clause(subject, lexicon.BE, complement=Phrase(word.en, word.de))
    return english_statement(main), german_statement(main), "."


def relative_subject(draw: Draw) -> Sentence:
    """Returns `I know the man who buys the car.`."""
    head = person(draw)._replace(determiner="the", adjective=None)
    doer = WHO._replace(
        nominative=determiner("the", "nominative", head.gender),
        person=head.person,
    )
    clause = with_time(draw, action(draw, doer))
    english, german = english_statement(clause), german_subordinate(clause)
    if draw.chance(0.5):
        words = lexicon.STATES + adjectives("person")
        return _described(draw, head, english, german, words)
    verb = draw.one(_known(("know", "like", "see", "visit")))
    main = Clause(anyone(draw), verb, accusative=head)
    return (
        f"{english_statement(main)} {english}",
        f"{german_statement(main)}, {german}",
        ".",
    )


def relative_object(draw: Draw) -> Sentence:
    """Returns `The book that I read yesterday is interesting.`."""
    things = ("text", "thing", "clothes", "vehicle", "small")
    verbs = lexicon.VERBS + lexicon.EVENT_VERBS
    verb = draw.one([v for v in verbs if set(things) & set(v.objects)])
    noun = draw.one(nouns(*(k for k in things if k in verb.objects)))
    head = thing(draw, noun, ("the", "the", "the*"))._replace(adjective=None)
    clause = with_time(draw, Clause(anyone(draw), verb))
    pronoun = determiner("the", "accusative", head.gender)
    return _described(
        draw,
        head,
        f"that {english_statement(clause)}",
        f"{pronoun} {german_subordinate(clause)}",
        adjectives(*noun.kinds),
    )


def infinitive(draw: Draw) -> Sentence:
    """Returns `He tries to open the window.`."""
    subject = anyone(draw)
    maker = draw.one((giving, helping, going, staying))
    if draw.chance(0.5):
        inner = transitive(draw, subject, lexicon.VERBS)
    else:
        inner = maker(draw, subject)
    if draw.chance(0.4):
        main = Clause(
            IT["n"],
            lexicon.BE,
            negated=draw.chance(0.3),
            complement=draw.one(_IMPORTANT),
        )
    else:
        verb = draw.one((lexicon.TRY, lexicon.TRY, lexicon.BEGIN, lexicon.HOPE))
        tense = "past" if draw.chance(0.3) else "present"
        main = Clause(subject, verb, tense)
    return (
        f"{english_statement(main)} {english_infinitive(inner)}",
        f"{german_statement(main)}, {german_infinitive(inner)}",
        ".",
    )


def purpose(draw: Draw) -> Sentence:
    """Returns `She goes to the city to buy bread.`."""
    subject = anyone(draw)
    first = going(draw, subject)
    if draw.chance(0.3):
        first = first._replace(tense="past")
    if draw.chance(0.7):
        inner = transitive(draw, subject, lexicon.VERBS)
    else:
        inner = draw.one((giving, helping))(draw, subject)
    return (
        f"{english_statement(first)} {english_infinitive(inner)}",
        f"{german_statement(first)}, um {german_infinitive(inner)}",
        ".",
    )


def two(draw: Draw) -> Sentence:
    """Returns `Anna reads a book and Peter drinks tea.`."""
    first = draw.one(NAMES)
    second = draw.one([each for each in NAMES if each != first])
    left = transitive(draw, first, lexicon.VERBS)
    if draw.chance(0.5):
        right, en, de = action(draw, second), " and", " und"
    else:
        right = transitive(draw, second, (left.verb,), negated=True)
        en, de = ", but", ", aber"
    return (
        f"{english_statement(left)}{en} {english_statement(right)}",
        f"{german_statement(left)}{de} {german_statement(right)}",
        ".",
    )
