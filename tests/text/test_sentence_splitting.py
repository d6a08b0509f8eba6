"""Sentences of documents in several languages."""

import random

import pytest

from keras_transformer.text import split_sentences


def sentences(document):
    return [sentence for sentence, _ in split_sentences(document)]


@pytest.mark.parametrize(
    "document",
    [
        "Hello. | How are you? | Fine! | And you?",
        "Wait... | Nobody came. | Why?! | Because… | 7 men were late.",
        "Wait... there is more. | What? no.",
        "He said: “Go!” | She went. | (It rained.) | “Yes.” | ‘No.’ | [Sic.]",
        "„Komm!“ | „Nein.“ | »Doch.« | Er ging.",
        "¿Qué? | ¡Nada! | «Oui !» | Élan.",
        "“Why?” he asked. | She left.",
        "Привет. | Как дела? | Хорошо.",
        "مرحبا. | كيف حالك؟ | بخير.",
        "यह एक घर है। | वह बड़ा है।",
        # Initials, and abbreviations that end with one letter.
        "J. R. R. Tolkien wrote it. | I read it.",
        "The U.S. Army came, e.g. Smith. | It left.",
        "Tiere, z. B. Hunde, i. d. R. Katzen. | Ende.",
        # Ordinals; a longer number may end a sentence.
        "Am 3. Mai und im 19. Jahrhundert. | Ja.",
        "It was in 1990. | We won 100. | Then 3.14 came.",
        # Abbreviations before a number.
        "See No. 5, Fig. 2, vol. 4, pp. 3 and Art. 5. Jan. 5th. | Approx. 20.",
        "Um ca. 20, approx. 20, Abb. 3, Tel. 030 und Fig. (2) geht es. | Ja.",
        "It was in the car. | 3 men came to pp. | Ten, 20 approx. | Two left.",
        # Titles.
        "Dr. No met Mr. Smith, Prof. Li and Fr. Maier. | Nr. 5 left St. Ives.",
        # A word that only ends like a title.
        "The wildest. | He is an MrDr. | A KaProf. | West. | Best.",
        # Exceptions are made for full stops only.
        "Plan B! | Vitamin C? | Room 12! | Dr!! | Nr... | No.",
        # No whitespace, or none that may be broken.
        "See www.Example.com or Main.Class and 3.Mai. | Done.",
        "Nr.\u00a05 und S.\u00a0Weil, Abb.\u00a0Zwei. | Ende.",
    ],
)
def test_where_sentences_end(document):
    expected = document.split(" | ")
    assert sentences(document.replace(" | ", " ")) == expected


def test_cjk_needs_no_whitespace():
    found = split_sentences("我来了。“你呢？！”「好。」 他说了。\nおわり")
    assert found == [
        ("我来了。", ""),
        ("“你呢？！”", ""),
        ("「好。」", " "),
        ("他说了。", "\n"),
        ("おわり", ""),
    ]


def test_line_breaks_always_split():
    found = split_sentences("Title\n\n  - a point,\r\nand another \t\n\n")
    assert found == [
        ("Title", "\n\n  "),
        ("- a point,", "\r\n"),
        ("and another", " \t\n\n"),
    ]


def test_whitespace_at_the_ends():
    assert split_sentences("") == []
    assert split_sentences(" \n ") == [("", " \n ")]
    assert split_sentences("  A. \u3000B.  ") == [
        ("", "  "),
        ("A. \u3000B.", "  "),  # an initial
    ]
    assert split_sentences("Ah. \u3000Oh.  ") == [
        ("Ah.", " \u3000"),
        ("Oh.", "  "),
    ]


def test_pieces_of_any_document_join_to_the_document():
    pieces = (
        *".!?…。！？؟ \t\n\r\v\f\x1c\x85\u2028\u00a0\u3000\0\"'“”„»«(){}[]-,;:",
        *("Ab", "ab", "A", "1", "12", "123", "Mr", "猫", "ß", "\u0301", "🙂"),
        *("...", ". ", "! ", '." ', "\r\n", "\n\n"),
    )
    generator = random.Random(0)
    for _ in range(1000):
        count = generator.randrange(20)
        document = "".join(generator.choices(pieces, k=count))
        found = split_sentences(document)
        assert "".join(map("".join, found)) == document
        for i, (sentence, separator) in enumerate(found):
            assert sentence == sentence.strip()
            assert len(sentence.splitlines()) == (1 if sentence else 0)
            assert sentence or i == 0
            assert not separator.strip()


def test_no_break_spaces_end_a_sentence_except_after_a_full_stop():
    document = "Hello!\u00a0How are you? \u00a0Nr.\u00a05.\u202fOne.\u00a0 Two"
    assert split_sentences(document) == [
        ("Hello!", "\u00a0"),
        ("How are you?", " \u00a0"),
        ("Nr.\u00a05.\u202fOne.", "\u00a0 "),
        ("Two", ""),
    ]
    french = "«\u00a0Quoi\u00a0?\u00a0» dit-il\u00a0! Oui."
    assert [x for x, _ in split_sentences(french)] == [french[:-5], "Oui."]


@pytest.mark.parametrize("unit", [".", "。", '?"', " ", "\n", ". ", "A. "])
def test_long_documents(unit):
    # Minutes, if the time grew with the square of the length.
    document = unit * 100_000
    found = split_sentences(document)
    assert "".join(map("".join, found)) == document
