"""Texts of several lines: what is translated, and what is kept."""

import pytest

from keras_transformer.text.documents import SplitDocument


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A dog. A cat sleeps!", "A DOG. A CAT SLEEPS!"),
        ("a\nb\n\n  c.\r\n\td  \n", "A\nB\n\n  C.\r\n\tD  \n"),
        (
            "- a\n  * b\n> > c\n## d - e\n• f",
            "- A\n  * B\n> > C\n## D - E\n• F",
        ),
        ("", ""),
        (" \n\n", " \n\n"),
        ("----\n3.14\n!?\n1.\n", "----\n3.14\n!?\n1.\n"),
        ("狗。猫！", "狗。猫！"),
    ],
)
def test_whitespace_marks_and_what_has_no_letters_are_kept(text, expected):
    document = SplitDocument(text)
    assert document.join([x.upper() for x in document.sentences]) == expected


def test_each_sentence_once_without_its_marks():
    document = SplitDocument("a b. \nThe cat.\n1.\n\n- a b.\na b. -c")
    assert document.sentences == ["a b.", "The cat.", "a b. -c"]
    numbered = "1. a b.\n12) a b.\n- a) The cat.\n1.5 mm\n100. x\n2020. y"
    expected = ["a b.", "The cat.", "1.5 mm", "100. x", "2020. y"]
    assert SplitDocument(numbered).sentences == expected
    assert SplitDocument("\n 1 \n").sentences == []


def test_translations_of_several_lines_are_one_line():
    assert SplitDocument("x\ny").join(["a\nb \u2028 c", "d"]) == "a b c\nd"


def test_a_space_is_added_from_chinese_to_english():
    document = SplitDocument("甲。乙！丙。")
    assert document.join(["A.", "B!", "C."]) == "A. B! C."


def test_a_different_rule_for_sentences():
    document = SplitDocument("abab", lambda text: [(x, "") for x in text])
    assert document.sentences == ["a", "b"]
    assert document.join(["A", "B"]) == "A B A B"


def test_a_language_token_counts_for_its_line():
    text = ">>deu<< A dog. 3! Yes.\n- No.\n- >>fra<< No. Yes."
    document = SplitDocument(text, languages=["deu", "fra"])
    assert document.sentences == [
        ">>deu<< A dog.",
        ">>deu<< Yes.",
        "No.",
        ">>fra<< No.",
        ">>fra<< Yes.",
    ]
    assert document.join("ABCDE") == "A 3! B\n- C\n- D E"
    # Without languages it is text; so is an unknown one.
    assert SplitDocument(">>deu<< A dog. A cat.").sentences == [
        ">>deu<< A dog.",
        "A cat.",
    ]
    document = SplitDocument(">>de<< A dog. A cat.", languages=["deu"])
    assert document.sentences == [">>de<< A dog.", "A cat."]


def test_the_language_of_sentences_without_a_token():
    text = "- No. Yes.\n1.\n> >>deu<< No. Yes.\nYes."
    languages = ["deu", "fra"]
    document = SplitDocument(text, languages=languages, language="fra")
    assert document.sentences == [
        ">>fra<< No.",
        ">>fra<< Yes.",
        ">>deu<< No.",
        ">>deu<< Yes.",
    ]
    assert document.join("ABCD") == "- A B\n1.\n> C D\nB"
