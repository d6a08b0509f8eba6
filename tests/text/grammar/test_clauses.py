"""Noun phrases and clauses of the embedded corpus, against German by hand."""

import pytest

from keras_transformer.text.grammar import clauses, lexicon, phrases
from keras_transformer.text.grammar.clauses import Clause
from keras_transformer.text.grammar.descriptions import PROFESSION_NOUNS
from keras_transformer.text.grammar.phrases import (
    HE,
    IT,
    SHE,
    THEY,
    WE,
    WHO,
    YOU,
    I,
    NounPhrase,
)
from keras_transformer.text.grammar.words import Phrase, Verb

VERBS = [
    verb
    for words in vars(lexicon).values()
    if isinstance(words, tuple)
    for verb in words
    if isinstance(verb, Verb)
]


def find(words, english, particle=""):
    """Returns the word of a table with this English form."""
    return next(
        word
        for word in words
        if word.en == english and getattr(word, "particle", "") == particle
    )


def phrase(text):
    """Returns a noun phrase, from `the* old man`: the star is the plural."""
    determiner, *described, word = text.split()
    places = tuple(place.noun for place in lexicon.PLACES)
    adjective = described[0] if described else None
    return NounPhrase(
        find(lexicon.NOUNS + lexicon.MASS_NOUNS + places, word),
        determiner.strip("-*"),
        find(lexicon.ADJECTIVES, adjective) if adjective else None,
        "*" in determiner,
    )


def act(subject, verb, accusative=None, particle="", **kwargs):
    """Returns a clause; nouns may be given as for `phrase`."""
    if isinstance(verb, str):
        verb = find(VERBS, verb, particle)
    if isinstance(kwargs.get("dative"), str):
        kwargs["dative"] = phrase(kwargs["dative"])
    if isinstance(accusative, str):
        accusative = phrase(accusative)
    if isinstance(subject, str):
        subject = phrase(subject)
    return Clause(subject, verb, accusative=accusative, **kwargs)


def be(subject, **kwargs):
    return act(subject, lexicon.BE, **kwargs)


def profession(english, gender="m", word="one", plural=False, adjective=None):
    noun = find(PROFESSION_NOUNS[gender], english)
    if adjective:
        adjective = find(lexicon.ADJECTIVES, adjective)
    return NounPhrase(noun, word, adjective, plural)


YESTERDAY = Phrase("yesterday", "gestern")
TOMORROW = Phrase("tomorrow", "morgen")
OFTEN = Phrase("often", "oft")
DAILY = Phrase("every day", "jeden Tag")
IN_BERLIN = Phrase("in Berlin", "in Berlin")
TIRED = Phrase("tired", "müde")


@pytest.mark.parametrize(
    ("english", "german"),
    [
        ("the student", "der Student / den Studenten / dem Studenten"),
        ("this boy", "dieser Junge / diesen Jungen / diesem Jungen"),
        ("my neighbour", "mein Nachbar / meinen Nachbarn / meinem Nachbarn"),
        ("a customer", "ein Kunde / einen Kunden / einem Kunden"),
        ("the old man", "der alte Mann / den alten Mann / dem alten Mann"),
        ("her sister", "ihre Schwester / ihre Schwester / ihrer Schwester"),
        (
            "a big horse",
            "ein großes Pferd / ein großes Pferd / einem großen Pferd",
        ),
        ("the* child", "die Kinder / die Kinder / den Kindern"),
        ("my* dog", "meine Hunde / meine Hunde / meinen Hunden"),
        ("the* woman", "die Frauen / die Frauen / den Frauen"),
        ("the* radio", "die Radios / die Radios / den Radios"),
        (
            "two* new car",
            "zwei neue Autos / zwei neue Autos / zwei neuen Autos",
        ),
        ("- cold milk", "kalte Milch / kalte Milch / kalter Milch"),
        ("- warm coffee", "warmer Kaffee / warmen Kaffee / warmem Kaffee"),
        (
            "this expensive coat",
            "dieser teure Mantel / diesen teuren Mantel / diesem teuren Mantel",
        ),
    ],
)
def test_noun_in_every_case(english, german):
    made = (phrase(english).german(case) for case in phrases.CASES)
    assert " / ".join(made) == german


def test_article_before_a_vowel():
    assert phrase("a apple").english() == "an apple"
    assert phrase("a old book").english() == "an old book"
    assert phrase("a red apple").english() == "a red apple"
    assert phrase("this* box").english() == "these boxes"


# Clauses: (what is said, English, German).
STATEMENTS = [
    (
        be(I, predicate=profession("student")),
        "I am a student",
        "ich bin Student",
    ),
    (
        be(SHE, predicate=profession("teacher", "f")),
        "she is a teacher",
        "sie ist Lehrerin",
    ),
    (
        be(SHE, predicate=profession("doctor", "f", "a", adjective="good")),
        "she is a good doctor",
        "sie ist eine gute Ärztin",
    ),
    (
        be(HE, negated=True, predicate=profession("engineer")),
        "he is not an engineer",
        "er ist kein Ingenieur",
    ),
    (
        be(WE, tense="past", predicate=profession("cook", plural=True)),
        "we were cooks",
        "wir waren Köche",
    ),
    (
        be("the* shoe", complement=Phrase("too expensive", "zu teuer")),
        "the shoes are too expensive",
        "die Schuhe sind zu teuer",
    ),
    (
        be("the house", negated=True, complement=Phrase("old", "alt")),
        "the house is not old",
        "das Haus ist nicht alt",
    ),
    (
        be(YOU, tense="past", time=YESTERDAY, complement=TIRED),
        "you were tired yesterday",
        "du warst gestern müde",
    ),
    (
        act(HE, "read", "a book", time=OFTEN),
        "he often reads a book",
        "er liest oft ein Buch",
    ),
    (
        act(HE, "read", "the newspaper", time=DAILY),
        "he reads the newspaper every day",
        "er liest die Zeitung jeden Tag",
    ),
    (
        act(THEY, "drink", "- tea", negated=True),
        "they do not drink tea",
        "sie trinken keinen Tee",
    ),
    (
        act(I, "read", "the book", tense="past", time=YESTERDAY, negated=True),
        "I did not read the book yesterday",
        "ich habe das Buch gestern nicht gelesen",
    ),
    (
        act(SHE, "buy", "a coat", tense="past", time=YESTERDAY, negated=True),
        "she did not buy a coat yesterday",
        "sie hat gestern keinen Mantel gekauft",
    ),
    (
        act(YOU, "buy", "- bread", tense="future", time=TOMORROW),
        "you will buy bread tomorrow",
        "du wirst morgen Brot kaufen",
    ),
    (
        act("the woman", "turn", "the lamp", "on"),
        "the woman turns on the lamp",
        "die Frau schaltet die Lampe ein",
    ),
    (
        act(I, "invite", "the boy", tense="past", time=YESTERDAY),
        "I invited the boy yesterday",
        "ich habe den Jungen gestern eingeladen",
    ),
    (
        act(I, "call", HE, tense="future", time=TOMORROW),
        "I will call him tomorrow",
        "ich werde ihn morgen anrufen",
    ),
    (
        act("her* son", "get", particle="up", tense="past", time=YESTERDAY),
        "her sons got up yesterday",
        "ihre Söhne sind gestern aufgestanden",
    ),
    (
        act(SHE, "get", particle="up", negated=True),
        "she does not get up",
        "sie steht nicht auf",
    ),
    (
        act(I, "give", "the book", dative="the man"),
        "I give the man the book",
        "ich gebe dem Mann das Buch",
    ),
    (
        act(HE, "show", "a picture", dative="the* child", time=OFTEN),
        "he often shows the children a picture",
        "er zeigt den Kindern oft ein Bild",
    ),
    (
        act(SHE, "send", "two* letter", dative="our neighbour"),
        "she sends our neighbour two letters",
        "sie schickt unserem Nachbarn zwei Briefe",
    ),
    (
        act(WE, "help", dative="the* student", negated=True),
        "we do not help the students",
        "wir helfen den Studenten nicht",
    ),
    (
        act(HE, "listen", particle="to", dative=SHE),
        "he listens to her",
        "er hört ihr zu",
    ),
    (
        act(HE, "follow", dative=I, tense="past", time=YESTERDAY),
        "he followed me yesterday",
        "er ist mir gestern gefolgt",
    ),
    (
        act("this car", lexicon.BELONG, dative="my father"),
        "this car belongs to my father",
        "dieses Auto gehört meinem Vater",
    ),
    (
        act(SHE, "work", complement=IN_BERLIN, tense="past", negated=True),
        "she did not work in Berlin",
        "sie hat nicht in Berlin gearbeitet",
    ),
    (
        act(
            "the teacher",
            lexicon.GO,
            complement=Phrase("to the park", "in den Park"),
            tense="past",
            time=YESTERDAY,
        ),
        "the teacher went to the park yesterday",
        "der Lehrer ist gestern in den Park gegangen",
    ),
    (
        act(
            HE,
            lexicon.PUT,
            "the key",
            complement=Phrase("under the bed", "unter das Bett"),
        ),
        "he puts the key under the bed",
        "er legt den Schlüssel unter das Bett",
    ),
    (
        act(I, "find", "the key", modal=clauses.CAN, negated=True),
        "I cannot find the key",
        "ich kann den Schlüssel nicht finden",
    ),
    (
        act(SHE, "open", "a window", modal=clauses.WANT),
        "she wants to open a window",
        "sie will ein Fenster aufmachen",
    ),
    (
        act(YOU, "drink", "- water", modal=clauses.SHOULD),
        "you should drink water",
        "du solltest Wasser trinken",
    ),
    (
        act(WE, "eat", "the* egg", modal=clauses.MUST),
        "we must eat the eggs",
        "wir müssen die Eier essen",
    ),
    (
        act(HE, "wash", "my car", modal=clauses.MAY, negated=True),
        "he may not wash my car",
        "er darf mein Auto nicht waschen",
    ),
    (
        act(I, "buy", "this hat", modal=clauses.WOULD_LIKE),
        "I would like to buy this hat",
        "ich möchte diesen Hut kaufen",
    ),
    (
        act(I, "have", "a red apple"),
        "I have a red apple",
        "ich habe einen roten Apfel",
    ),
    (
        act(SHE, "like", "the* dog", negated=True),
        "she does not like the dogs",
        "sie mag die Hunde nicht",
    ),
]


@pytest.mark.parametrize(("clause", "english", "german"), STATEMENTS)
def test_statement(clause, english, german):
    assert clauses.english_statement(clause) == english
    assert clauses.german_statement(clause) == german


QUESTIONS = [
    (be(SHE, complement=TIRED), "is she tired", "ist sie müde"),
    (
        act("your brother", "sleep", complement=IN_BERLIN),
        "does your brother sleep in Berlin",
        "schläft dein Bruder in Berlin",
    ),
    (
        act(YOU, "turn", "the* radio", "off"),
        "do you turn off the radios",
        "schaltest du die Radios aus",
    ),
    (
        act(HE, "lose", "his umbrella", tense="past", time=YESTERDAY),
        "did he lose his umbrella yesterday",
        "hat er seinen Regenschirm gestern verloren",
    ),
    (
        act(YOU, "speak", "- German", modal=clauses.CAN),
        "can you speak German",
        "kannst du Deutsch sprechen",
    ),
]


@pytest.mark.parametrize(("clause", "english", "german"), QUESTIONS)
def test_question(clause, english, german):
    assert clauses.english_question(clause) == english
    assert clauses.german_question(clause) == german


SUBORDINATES = [
    (act(HE, "read", "the book"), "er das Buch liest"),
    (act(HE, "open", "the door"), "er die Tür aufmacht"),
    (
        act(HE, "open", "the door", tense="past", time=YESTERDAY),
        "er die Tür gestern aufgemacht hat",
    ),
    (
        act(I, "come", particle="back", modal=clauses.WANT, negated=True),
        "ich nicht zurückkommen will",
    ),
    (
        act(SHE, "buy", "a dress", tense="future", time=TOMORROW),
        "sie morgen ein Kleid kaufen wird",
    ),
    (be(IT["f"], complement=Phrase("cheap", "billig")), "sie billig ist"),
    (be(I, tense="past", predicate=profession("student")), "ich Student war"),
]


@pytest.mark.parametrize(("clause", "german"), SUBORDINATES)
def test_subordinate_clause_ends_with_the_verb(clause, german):
    assert clauses.german_subordinate(clause) == german


def test_other_forms_of_a_clause():
    clause = act(I, "open", "the window")
    assert clauses.english_infinitive(clause) == "to open the window"
    assert clauses.german_infinitive(clause) == "das Fenster aufzumachen"
    clause = act(I, "help", dative="the girl")
    assert clauses.german_infinitive(clause) == "dem Mädchen zu helfen"
    clause = act("my mother", "buy", "- meat", tense="future")
    front = clauses.german_statement(clause, front="morgen")
    assert front == "morgen wird meine Mutter Fleisch kaufen"
    clause = act(WHO, "buy", "the car")
    assert clauses.english_statement(clause) == "who buys the car"
    assert clauses.german_statement(clause) == "wer kauft das Auto"
