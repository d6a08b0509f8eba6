"""Determiners, adjectives, verbs: the forms of the embedded corpus."""

import pytest

from keras_transformer.text.grammar import lexicon, phrases
from keras_transformer.text.grammar.phrases import after
from keras_transformer.text.grammar.words import Verb

VERBS = [
    verb
    for words in vars(lexicon).values()
    if isinstance(words, tuple)
    for verb in words
    if isinstance(verb, Verb)
]

# Nominative, accusative, dative: masculine, feminine, neuter, plural.
DETERMINERS = {
    "the": "der die das die / den die das die / dem der dem den",
    "this": (
        "dieser diese dieses diese / diesen diese dieses diese / "
        "diesem dieser diesem diesen"
    ),
    "which": (
        "welcher welche welches welche / welchen welche welches welche / "
        "welchem welcher welchem welchen"
    ),
    "a": "ein eine ein - / einen eine ein - / einem einer einem -",
    "no": (
        "kein keine kein keine / keinen keine kein keine / "
        "keinem keiner keinem keinen"
    ),
    "my": (
        "mein meine mein meine / meinen meine mein meine / "
        "meinem meiner meinem meinen"
    ),
    "your": (
        "dein deine dein deine / deinen deine dein deine / "
        "deinem deiner deinem deinen"
    ),
    "his": (
        "sein seine sein seine / seinen seine sein seine / "
        "seinem seiner seinem seinen"
    ),
    "her": "ihr ihre ihr ihre / ihren ihre ihr ihre / ihrem ihrer ihrem ihren",
    "our": (
        "unser unsere unser unsere / unseren unsere unser unsere / "
        "unserem unserer unserem unseren"
    ),
    "many": "- - - viele / - - - viele / - - - vielen",
    "two": "- - - zwei / - - - zwei / - - - zwei",
}
NEW = {
    "the": "neue neue neue neuen / neuen neue neue neuen / "
    "neuen neuen neuen neuen",
    "this": "neue neue neue neuen / neuen neue neue neuen / "
    "neuen neuen neuen neuen",
    "a": "neuer neue neues neue / neuen neue neues neue / "
    "neuen neuen neuen neuen",
    "my": "neuer neue neues neuen / neuen neue neues neuen / "
    "neuen neuen neuen neuen",
    "no": "neuer neue neues neuen / neuen neue neues neuen / "
    "neuen neuen neuen neuen",
    "": "neuer neue neues neue / neuen neue neues neue / "
    "neuem neuer neuem neuen",
    "two": "- - - neue / - - - neue / - - - neuen",
    "many": "- - - neue / - - - neue / - - - neuen",
}


def cells(table):
    """Yields case, gender and word of a table; a hyphen is left out."""
    for case, row in zip(phrases.CASES, table.split(" / "), strict=True):
        for gender, word in zip(phrases.GENDERS, row.split(), strict=True):
            if word != "-":
                yield case, gender, word


@pytest.mark.parametrize("word", DETERMINERS)
def test_determiner(word):
    for case, gender, german in cells(DETERMINERS[word]):
        assert phrases.determiner(word, case, gender) == german


@pytest.mark.parametrize("word", NEW)
def test_adjective_ending(word):
    for case, gender, german in cells(NEW[word]):
        assert "neu" + phrases.adjective_ending(word, case, gender) == german


@pytest.mark.parametrize(
    ("english", "particle", "forms"),
    [
        ("read", "", "lese liest liest lesen gelesen haben"),
        ("eat", "", "esse isst isst essen gegessen haben"),
        ("see", "", "sehe siehst sieht sehen gesehen haben"),
        ("take", "", "nehme nimmst nimmt nehmen genommen haben"),
        ("speak", "", "spreche sprichst spricht sprechen gesprochen haben"),
        ("meet", "", "treffe triffst trifft treffen getroffen haben"),
        ("forget", "", "vergesse vergisst vergisst vergessen vergessen haben"),
        ("wash", "", "wasche wäschst wäscht waschen gewaschen haben"),
        ("find", "", "finde findest findet finden gefunden haben"),
        ("clean", "", "putze putzt putzt putzen geputzt haben"),
        ("work", "", "arbeite arbeitest arbeitet arbeiten gearbeitet haben"),
        ("dance", "", "tanze tanzt tanzt tanzen getanzt haben"),
        ("sleep", "", "schlafe schläfst schläft schlafen geschlafen haben"),
        ("stay", "", "bleibe bleibst bleibt bleiben geblieben sein"),
        ("help", "", "helfe hilfst hilft helfen geholfen haben"),
        ("give", "", "gebe gibst gibt geben gegeben haben"),
        ("like", "", "mag magst mag mögen gemocht haben"),
        ("have", "", "habe hast hat haben gehabt haben"),
        ("invite", "", "lade lädst lädt laden eingeladen haben"),
        ("get", "up", "stehe stehst steht stehen aufgestanden sein"),
        (
            "repair",
            "",
            "repariere reparierst repariert reparieren repariert haben",
        ),
    ],
)
def test_verb(english, particle, forms):
    verb = next(
        verb
        for verb in VERBS
        if (verb.en, verb.particle) == (english, particle)
    )
    made = (verb.ich, verb.du, verb.er, verb.de, verb.participle)
    assert " ".join((*made, verb.auxiliary)) == forms


@pytest.mark.parametrize(
    ("preposition", "words", "expected"),
    [
        ("in", "dem alten Haus", "im alten Haus"),
        ("in", "das Kino", "ins Kino"),
        ("in", "den Park", "in den Park"),
        ("in", "der Stadt", "in der Stadt"),
        ("an", "dem Bahnhof", "am Bahnhof"),
        ("zu", "dem Flughafen", "zum Flughafen"),
        ("zu", "der Frau", "zur Frau"),
        ("auf", "das Bett", "auf das Bett"),
    ],
)
def test_contraction(preposition, words, expected):
    assert after(preposition, words) == expected
