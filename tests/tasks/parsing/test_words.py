import pytest

from keras_transformer.tasks.parsing.words import read_words, split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ""),
        ("The dog barks.", "The dog barks ."),
        ("He isn't here, is he?", "He is n't here , is he ?"),
        ("John's dogs' food; it'll do", "John 's dogs ' food ; it 'll do"),
        ("We CAN'T and cannot.", "We CA N'T and can not ."),
        ('"Yes," he said.', "`` Yes , '' he said ."),
        ('She said ("no")', "She said -LRB- `` no '' -RRB-"),
        ("1,000 U.S. dollars, 3:30 p.m.", "1,000 U.S. dollars , 3:30 p.m ."),
        ("p < 0.05 [see Fig. 2] ...", "p < 0.05 -LSB- see Fig. 2 -RSB- ..."),
        ("5% & more -- {or} less!", "5 % & more -- -LCB- or -RCB- less !"),
        ("Don’t say “no”!", "Do n't say `` no '' !"),
        ("  many   spaces  ", "many spaces"),
        ("1,\u0661 can\u0663not é's", "1 , \u0661 can\u0663not é 's"),
    ],
)
def test_text_is_split_as_in_the_penn_treebank(text, words):
    assert split_words(text) == words.split(" ") * bool(words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" a\v\vb\f\nc\t", ["a", "b", "c"]),
        ("(a b) ", ["-LRB-a", "b-RRB-"]),
        ("\x85a\u00a0\u3000b\x1c \0", ["\x85a\u00a0\u3000b\x1c", "\0"]),
        ("( 1,000 U.S. ) n't", ["-LRB-", "1,000", "U.S.", "-RRB-", "n't"]),
    ],
)
def test_words_that_are_split_stay(text, words):
    assert read_words(text) == words
