"""The sentence patterns of the embedded corpus."""

import re

import pytest

from keras_transformer.text import corpus
from keras_transformer.text.grammar import lexicon
from keras_transformer.text.grammar.choices import Draw, degree

PATTERNS = {pattern.__name__: pattern for pattern in corpus.PATTERNS}

# What a pattern makes, as it must be in full.
SENTENCES = {
    "profession": ("My sister is a doctor.", "Meine Schwester ist Ärztin."),
    "profession_question": ("Is he a teacher?", "Ist er Lehrer?"),
    "quality": ("This fruit is very fresh.", "Dieses Obst ist sehr frisch."),
    "state": ("They are always happy.", "Sie sind immer glücklich."),
    "plain": ("The boys laugh.", "Die Jungen lachen."),
    "living": ("I do not live in Munich.", "Ich wohne nicht in München."),
    "where": ("Where does he come from?", "Woher kommt er?"),
    "existence": (
        "There are many hotels in the city.",
        "Es gibt viele Hotels in der Stadt.",
    ),
    "motion": ("I go to the cinema.", "Ich gehe ins Kino."),
    "what": ("What do you buy?", "Was kaufst du?"),
    "who": ("Whom does she help?", "Wem hilft sie?"),
    "liking": ("I like to eat apples.", "Ich esse gern Äpfel."),
    "help_": ("I thank you.", "Ich danke dir."),
    "having": ("You like milk.", "Du magst Milch."),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_pattern_makes_the_sentence(name):
    pattern = PATTERNS[name]
    english, german = SENTENCES[name]
    draw, mark = Draw(0), english[-1]
    made = (pattern(draw) for _ in range(20_000))
    wanted = corpus.normalized(english)
    found = next(s for s in made if corpus.normalized(s[0]) == wanted)
    assert corpus.normalized(found[1]) == corpus.normalized(german)
    assert found[2] == mark


# Patterns with too many sentences to wait for one: how all of them look.
SHAPES = {
    "because": (r".+ because .+", r".+, weil .+"),
    "because_it": (
        r".+ because (it is|they are) .+",
        r".+, weil (er|sie|es) .+ (ist|sind)",
    ),
    "that": (r".+ that .+", r".+, dass .+"),
    "if_": (r"(if .+, .+|.+ if .+)", r"(wenn .+, .+|.+, wenn .+)"),
    "although": (r"although .+, .+", r"obwohl .+ (bin|bist|ist|sind), .+"),
    "when_past": (r"when .+, .+", r"als .+ (war|warst|waren), .+"),
    "whether": (r".+ whether .+", r".+, ob .+"),
    "indirect": (r".+ (where|when|why) .+", r".+, (wo|wann|warum) .+"),
    "relative_subject": (r".+ who .+", r".+, (der|die|das) .+"),
    "relative_object": (
        r"the .+ that .+ (is|are) .+",
        r"(der|die|das) .+, (den|die|das) .+, (ist|sind) .+",
    ),
    "infinitive": (r".+ to .+", r".+, .*zu.+en"),
    "purpose": (r".+ to .+ to .+|.+ home to .+", r".+, um .*zu.+en"),
    "two": (r".+( and|, but) .+", r".+( und|, aber) .+"),
    "comparison": (r".+er? .*than .+|.+ more .+ than .+", r".+er als .+"),
    "fronted": (r".+ (will|\w+) .+", r"\w+ .+"),
    "which": (r"which .+ (do|does|did|will) .+", r"welche[ns]? .+|welcher .+"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shape_of_a_pattern(name):
    pattern = PATTERNS[name]
    english, german = SHAPES[name]
    draw = Draw(1)
    for _ in range(200):
        sentence = pattern(draw)
        assert re.fullmatch(english, sentence[0]), sentence
        assert re.fullmatch(german, sentence[1]), sentence


def test_too_is_said_of_what_can_be_too_much():
    word = {word.en: word for word in lexicon.ADJECTIVES}
    draw = Draw(0)
    fresh = {degree(draw, word["fresh"]).de for _ in range(50)}
    assert fresh == {"frisch", "sehr frisch"}
    expensive = {degree(draw, word["expensive"]).de for _ in range(50)}
    assert expensive == {"teuer", "sehr teuer", "zu teuer"}
