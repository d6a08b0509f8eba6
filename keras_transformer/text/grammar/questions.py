"""The patterns of the embedded corpus that ask with a word: what, where, why.

As in `patterns`, a pattern returns the English sentence, the German one and
the mark at their end.
"""

from keras_transformer.text.grammar import lexicon
from keras_transformer.text.grammar.choices import (
    Draw,
    action,
    anyone,
    nouns,
    with_time,
)
from keras_transformer.text.grammar.clauses import (
    Clause,
    Sentence,
    english_question,
    german_question,
    stated,
)
from keras_transformer.text.grammar.phrases import WHO, NounPhrase

_PEOPLE = {"person", "kin", "parent"}


def what(draw: Draw) -> Sentence:
    """Returns `What does he buy?`."""
    verbs = [v for v in lexicon.VERBS if not set(v.objects) & _PEOPLE]
    clause = with_time(draw, Clause(anyone(draw), draw.one(verbs)))
    return (
        f"what {english_question(clause)}",
        f"was {german_question(clause)}",
        "?",
    )


def which(draw: Draw) -> Sentence:
    """Returns `Which book did she read yesterday?`."""
    subject = anyone(draw)
    verb = draw.one(lexicon.VERBS + lexicon.EVENT_VERBS)
    noun = draw.one(nouns(*verb.objects))
    if noun.de_plural == "-" or set(noun.kinds) & {"kin", "parent"}:
        return which(draw)
    thing_ = NounPhrase(noun, "which", None, draw.chance(0.2))
    clause = with_time(draw, Clause(subject, verb))
    return (
        f"{thing_.english()} {english_question(clause)}",
        f"{thing_.german('accusative')} {german_question(clause)}",
        "?",
    )


def who(draw: Draw) -> Sentence:
    """Returns `Who buys the car?`, `Whom does she help?`."""
    if draw.chance(0.5):
        clause = with_time(draw, action(draw, WHO))
        english, german, _ = stated(clause)
        return english, german, "?"
    subject = anyone(draw)
    if draw.chance(0.5):
        verb = draw.one([v for v in lexicon.VERBS if "kin" in v.objects])
        word = "wen"
    else:
        verb, word = draw.one(lexicon.DATIVE_VERBS), "wem"
    clause = with_time(draw, Clause(subject, verb))
    return (
        f"whom {english_question(clause)}",
        f"{word} {german_question(clause)}",
        "?",
    )


def where(draw: Draw) -> Sentence:
    """Returns `Where does your brother work?`."""
    subject = anyone(draw)
    word, verb, end = draw.one(
        (
            ("wo", draw.one(lexicon.PLACE_VERBS), ""),
            ("wo", lexicon.LIVE, ""),
            ("wohin", draw.one((lexicon.GO, lexicon.DRIVE)), ""),
            ("woher", lexicon.COME, " from"),
        )
    )
    clause = Clause(subject, verb)
    if word != "woher" and verb is not lexicon.LIVE:
        clause = with_time(draw, clause)
    return (
        f"where {english_question(clause)}{end}",
        f"{word} {german_question(clause)}",
        "?",
    )


def when(draw: Draw) -> Sentence:
    """Returns `When did he buy the car?`, `Why does she work?`."""
    tense = draw.one(("past", "past", "future", "present"))
    clause = action(draw, anyone(draw))._replace(tense=tense)
    english, german = draw.one((("when", "wann"), ("why", "warum")))
    return (
        f"{english} {english_question(clause)}",
        f"{german} {german_question(clause)}",
        "?",
    )
