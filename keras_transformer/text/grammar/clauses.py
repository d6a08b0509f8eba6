"""Clauses of the embedded corpus: where the words of a sentence stand.

A `Clause` says who does what to whom, when and where. One set of functions
puts it into English, another into German: as a statement (the verb second), a
question (the verb first), a subordinate clause (the verb last) and an
infinitive with zu.
"""

from typing import NamedTuple

from keras_transformer.text.grammar.lexicon import BE, OFTEN
from keras_transformer.text.grammar.phrases import Nominal
from keras_transformer.text.grammar.words import Phrase, Verb, add_s


class Modal(NamedTuple):
    """A modal verb.

    Attributes:
        auxiliary: English auxiliary (can), or empty.
        verb: English full verb after it (want), or empty.
        ich: German first and third person singular, present.
        du: German second person singular.
        wir: German plural.
    """

    auxiliary: str
    verb: str
    ich: str
    du: str
    wir: str


CAN = Modal("can", "", "kann", "kannst", "können")
MUST = Modal("must", "", "muss", "musst", "müssen")
SHOULD = Modal("should", "", "sollte", "solltest", "sollten")
MAY = Modal("may", "", "darf", "darfst", "dürfen")
WANT = Modal("", "want", "will", "willst", "wollen")
WOULD_LIKE = Modal("would", "like", "möchte", "möchtest", "möchten")
# English alone: German says it with gern.
LIKE_TO = Modal("", "like", "", "", "")


class Clause(NamedTuple):
    """What a clause says, in no language.

    Attributes:
        subject: The subject.
        verb: The verb.
        tense: `present`, `past` or `future`.
        modal: The modal verb; only in the present.
        negated: Whether it is negated.
        dative: The object in the dative (English: the first object).
        accusative: The object in the accusative.
        predicate: A noun phrase that the subject is.
        time: When.
        complement: What else belongs to the verb: a place, an adjective.
    """

    subject: Nominal
    verb: Verb
    tense: str = "present"
    modal: Modal | None = None
    negated: bool = False
    dative: Nominal | None = None
    accusative: Nominal | None = None
    predicate: Nominal | None = None
    time: Phrase | None = None
    complement: Phrase | None = None


# An English sentence, the German one and the mark at their end.
Sentence = tuple[str, str, str]


def join(*words: str) -> str:
    """Returns the words that are not empty with spaces between."""
    return " ".join(filter(None, words))


# English.


def _be(person: str, tense: str) -> str:
    if tense == "past":
        return "was" if person in ("ich", "er") else "were"
    return {"ich": "am", "er": "is"}.get(person, "are")


def _english_verb(clause: Clause, with_do: bool) -> tuple[str, str]:
    """Returns the auxiliary (or an empty string) and the rest of the verb."""
    verb, modal, past = clause.verb, clause.modal, clause.tense == "past"
    third = clause.subject.person == "er"
    if clause.tense == "future":
        return "will", verb.en
    if modal:
        to_verb = join(modal.verb, "to" if modal.verb else "", verb.en)
        if modal.auxiliary:
            return modal.auxiliary, to_verb
        if with_do:
            return "does" if third else "do", to_verb
        finite = add_s(modal.verb) if third else modal.verb
        return "", f"{finite} to {verb.en}"
    if verb is BE:
        return _be(clause.subject.person, clause.tense), ""
    if with_do:
        return "did" if past else "does" if third else "do", verb.en
    return "", verb.en_past if past else verb.en_third if third else verb.en


def _before_verb(time: Phrase | None) -> bool:
    """Whether the adverbial stands before the English verb."""
    return time in OFTEN


def _english_rest(clause: Clause) -> str:
    """Returns what follows the verb."""
    objects = (clause.dative, clause.accusative, clause.predicate)
    return join(
        clause.verb.particle,
        *(each.english() for each in objects if each),
        clause.complement.en if clause.complement else "",
        clause.time.en if clause.time and not _before_verb(clause.time) else "",
    )


def english_statement(clause: Clause) -> str:
    """Returns `she does not read the book`."""
    auxiliary, verb = _english_verb(clause, with_do=clause.negated)
    if clause.negated:
        auxiliary = "cannot" if auxiliary == "can" else f"{auxiliary} not"
    return join(
        clause.subject.english("subject"),
        auxiliary,
        clause.time.en if _before_verb(clause.time) else "",
        verb,
        _english_rest(clause),
    )


def english_question(clause: Clause) -> str:
    """Returns `does she read the book`."""
    auxiliary, verb = _english_verb(clause, with_do=True)
    return join(
        auxiliary,
        clause.subject.english("subject"),
        "not" if clause.negated else "",
        clause.time.en if _before_verb(clause.time) else "",
        verb,
        _english_rest(clause),
    )


def english_infinitive(clause: Clause) -> str:
    """Returns `to read the book`."""
    return join("to", clause.verb.en, _english_rest(clause))


# German.


def _person(clause: Clause, ich: str, du: str, er: str, wir: str) -> str:
    """Returns the form that the subject takes."""
    forms = {"ich": ich, "du": du, "er": er, "sie": wir}
    return forms[clause.subject.person]


def _german_verb(clause: Clause) -> tuple[str, str]:
    """Returns the finite verb and what stands at the end of the clause."""
    verb, modal = clause.verb, clause.modal
    if clause.tense == "future":
        werden = ("werde", "wirst", "wird", "werden")
        return _person(clause, *werden), verb.infinitive
    if modal:
        finite = _person(clause, modal.ich, modal.du, modal.ich, modal.wir)
        return finite, verb.infinitive
    if clause.tense == "past":
        if verb is BE:
            return _person(clause, "war", "warst", "war", "waren"), ""
        if verb.de == "haben":
            forms = ("hatte", "hattest", "hatte", "hatten")
            return _person(clause, *forms), ""
        if verb.auxiliary == "sein":
            forms = ("bin", "bist", "ist", "sind")
        else:
            forms = ("habe", "hast", "hat", "haben")
        return _person(clause, *forms), verb.participle
    wir = "sind" if verb is BE else verb.de
    return _person(clause, verb.ich, verb.du, verb.er, wir), verb.prefix


def _german_middle(clause: Clause) -> str:
    """Returns what stands between the finite verb and the end.

    The order: definite objects (the dative first), time, nicht, indefinite
    objects, predicate, complement.
    """
    objects = [
        (each, case)
        for each, case in (
            (clause.dative, "dative"),
            (clause.accusative, "accusative"),
        )
        if each
    ]
    if clause.predicate:
        objects.append((clause.predicate, "nominative"))
    early, late = [], []
    for each, case in objects:
        words = each.german(case, clause.negated)
        at_end = each.indefinite or each is clause.predicate
        (late if at_end else early).append(words)
    kein = any(each.indefinite for each, _ in objects)
    return join(
        *early,
        clause.time.de if clause.time else "",
        "nicht" if clause.negated and not kein else "",
        *late,
        clause.complement.de if clause.complement else "",
    )


def german_statement(clause: Clause, front: str = "") -> str:
    """Returns `sie liest das Buch nicht`.

    Args:
        clause: What to say.
        front: What stands before the verb in place of the subject; the
            clause itself must lack it.
    """
    finite, end = _german_verb(clause)
    subject = clause.subject.german("nominative")
    first, second = (front, subject) if front else (subject, "")
    return join(first, finite, second, _german_middle(clause), end)


def german_question(clause: Clause) -> str:
    """Returns `liest sie das Buch nicht`."""
    finite, end = _german_verb(clause)
    subject = clause.subject.german("nominative")
    return join(finite, subject, _german_middle(clause), end)


def german_subordinate(clause: Clause) -> str:
    """Returns `sie das Buch nicht liest`, which follows a conjunction."""
    finite, end = _german_verb(clause)
    present = not clause.modal and clause.tense == "present"
    verb = end + finite if present else join(end, finite)
    subject = clause.subject.german("nominative")
    return join(subject, _german_middle(clause), verb)


def german_infinitive(clause: Clause) -> str:
    """Returns `das Buch zu lesen`."""
    verb = clause.verb
    last = f"{verb.prefix}zu{verb.de}" if verb.prefix else f"zu {verb.de}"
    return join(_german_middle(clause), last)


# Both.


def stated(clause: Clause) -> Sentence:
    """Returns a clause as a statement."""
    return english_statement(clause), german_statement(clause), "."


def asked(clause: Clause) -> Sentence:
    """Returns a clause as a question."""
    return english_question(clause), german_question(clause), "?"
