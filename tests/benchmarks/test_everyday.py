"""Pairs to train the included translator with, and its card."""

import random
import re
import sys

import everyday_card
import everyday_lists
import everyday_slots
import everyday_variants
import pytest
from everyday_replacements import replace_names, replace_numbers

TEST = [x.split("\t") for x in everyday_lists.read_lines("test.tsv")]
TEMPLATES = everyday_lists.read_pairs("templates.tsv")


@pytest.fixture
def slots():
    return everyday_slots.Slots(random.Random(1))


@pytest.mark.parametrize(
    ("translation", "kept"),
    [
        ("Das kostet 1.299,50 $.", True),
        ("Das kostet 1299 Dollar 50.", True),
        ("Das kostet 129,50 $.", False),
        ("Das kostet viel.", False),
    ],
)
def test_numbers_are_compared_by_their_digits(translation, kept):
    pair = "It's $1,299.50.", "Das macht 1.299,50 $."
    assert everyday_card.keeps_numbers(translation, *pair) is kept


def test_what_a_translation_keeps():
    times = "At 3:30 p.m.", "Um 15:30 Uhr"
    for translation in ("Um 15:30 Uhr.", "Um 3:30 Uhr nachmittags."):
        assert everyday_card.keeps_numbers(translation, *times)
    assert everyday_card.keeps_numbers("Hallo!", "Hi!", "Hallo!") is None
    assert everyday_card.keeps_numbers("Hallo 2!", "Hi!", "Hallo!") is False
    assert everyday_card.keeps_names("Priya ist in Rom.", "Priya;Rom")
    assert everyday_card.keeps_names("Priya ist da.", "Priya;Rom") is False
    assert everyday_card.keeps_names("Sie ist da.", "") is None
    assert everyday_card.share([True, None, False]) == "1 of 2 (50.0%)"


def test_references_keep_everything_and_no_template_has_a_test_sentence():
    assert len(TEST) == len({source for source, *_ in TEST}) == 150
    for source, reference, names in TEST:
        assert everyday_card.keeps_names(reference, names) is not False
        assert not re.search(r"  |\s$", source + "|" + reference)
    sources = {source.lower() for source, *_ in TEST}
    patterns = [re.sub(r"\\{\w+\\}", ".+", re.escape(x)) for x, _ in TEMPLATES]
    long = [x for x in patterns if len(re.sub(r"\W|\.\+", "", x)) > 12]
    for pattern in long:
        assert not [x for x in sources if re.fullmatch(pattern.lower(), x)]


def test_templates_have_the_same_slots_on_both_sides(slots):
    for template in TEMPLATES:
        source, target = (set(re.findall(r"{\w+}", x)) for x in template)
        assert source == target, template
        assert "{" not in "".join(slots.fill(template))


def test_times_and_dates_are_the_same_on_both_sides(slots):
    for _ in range(300):
        english, german = slots.time()
        hour, minute = re.match(r"(\d+)(?::(\d+))?", english).groups()
        hour = int(hour) % 12 + 12 if "p" in english.lower() else int(hour)
        hour = hour % 12 if "a" in english.lower() else hour
        minute = "" if minute is None else f":{minute}"
        assert german == f"{hour}{minute} Uhr", english
        english, german = slots.date()
        months = [x for x in everyday_lists.MONTHS if x[0] in english]
        day = re.search(r"\b(\d\d?)(?!\d)", english)[1]
        assert german == f"{day}. {months[0][1]} {english[-4:]}"


def test_what_is_not_replaced(slots):
    for pair in (
        ("Tom likes Tom.", "Tom mag sich."),
        ("Tom Jackson sang.", "Tom Jackson sang."),
        ("Thomas sang.", "Thomas sang."),
        ("I love New England.", "Ich liebe England."),
    ):
        assert replace_names(pair, slots) is None
    for pair in (
        ("I get up at six.", "Ich stehe um sechs auf."),
        ("Two hundred came.", "Zwei hundert kamen."),
        ("I have 1 dog.", "Ich habe 1 Hund."),
        ("2 and 2 make four.", "2 und 2 sind vier."),
        ("At 2:30 p.m.", "Um 2:30 Uhr."),
        ("The 16:49 train", "Der 16:49 Uhr-Zug"),
        ("It's 4 a.m.", "Es ist 4 in der Früh."),
        ("It begins by 9.", "Es beginnt vor 9."),
        ("Around 10 I slept.", "Um 10 schlief ich."),
        ("From 10 on, I slept.", "Ab 10 Uhr schlief ich."),
        ("This is Room 12.", "Das ist Zimmer 12."),
    ):
        assert replace_numbers(pair, slots) is None


def test_held_out_sentences_are_not_among_the_variants(tmp_path, monkeypatch):
    sources = [f"It is a {x}." for x in ("cat", "dog")] + [TEST[0][0], "Yes."]
    splits = {"valid": sources[:1], "test": sources[1:2], "train": sources * 99}
    for split, lines in splits.items():
        for language in ("en", "de"):
            (tmp_path / f"{split}.{language}").write_text("\n".join(lines))
    output = tmp_path / "variants.tsv"
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path), str(output)])
    everyday_variants.main()
    lines = output.read_text("utf-8").splitlines()
    written = {line.split("\t")[0].lower() for line in lines}
    assert "yes." in written and not written & {x.lower() for x in sources[:3]}
