"""The bundled corpus has the properties that its README names."""

import collections
import pathlib
import re

import pytest

from keras_transformer.train import data

FOLDER = pathlib.Path(data.__file__).parent / "demo"
SIZES = {"train": 24_000, "valid": 500, "test": 500}


@pytest.fixture(scope="module")
def sides():
    """{(split, language): sentences}."""
    return {
        (split, language): (FOLDER / f"{split}.{language}")
        .read_text("utf-8")
        .splitlines()
        for split in SIZES
        for language in ("en", "de")
    }


def words(sentence):
    return re.findall(r"\w+", sentence)


def test_sizes(sides):
    for (split, _), sentences in sides.items():
        assert len(sentences) == SIZES[split]
    readme = (FOLDER / "README.md").read_text("utf-8")
    for split, size in SIZES.items():
        assert f"| {split} | {size:,} |" in readme


def test_first_pairs(sides):
    pairs = list(zip(sides["train", "en"], sides["train", "de"], strict=True))
    assert pairs[:4] == [
        ("I am a student.", "Ich bin Student."),
        ("She is a student.", "Sie ist Studentin."),
        ("He is a teacher.", "Er ist Lehrer."),
        ("She is a teacher.", "Sie ist Lehrerin."),
    ]
    # The demonstration translates it, so it must not be known.
    assert ("I am a student", "Ich bin Student") not in pairs


@pytest.mark.parametrize("language", ["en", "de"])
def test_no_sentence_occurs_twice(sides, language):
    sentences = [
        " ".join(words(sentence)).lower()
        for split in SIZES
        for sentence in sides[split, language]
    ]
    assert len(set(sentences)) == len(sentences) == 25_000


@pytest.mark.parametrize("language, distinct", [("en", 400), ("de", 600)])
def test_held_out_words_occur_five_times_in_training(sides, language, distinct):
    count = collections.Counter()
    for sentence in sides["train", language]:
        count.update(words(sentence))
    held_out = {
        word
        for split in ("valid", "test")
        for sentence in sides[split, language]
        for word in words(sentence)
    }
    assert len(held_out) > distinct
    assert min(count[word] for word in held_out) >= 5


@pytest.mark.parametrize("language, letters", [("en", ""), ("de", "ÄÖÜäöüß")])
def test_sentences_have_three_to_sixteen_words(sides, language, letters):
    word = f"[A-Za-z{letters}]+"
    form = re.compile(rf"[A-Z{letters[:3]}]{word[:-1]}*(,? {word})*[.?]?")
    for split in SIZES:
        for sentence in sides[split, language]:
            assert 3 <= len(sentence.split()) <= 16
            assert form.fullmatch(sentence), sentence


def test_one_statement_in_ten_has_no_full_stop(sides):
    ends = collections.Counter()
    for split in SIZES:
        pairs = zip(sides[split, "en"], sides[split, "de"], strict=True)
        for english, german in pairs:
            marks = [re.sub(r"\w", "", text[-1]) for text in (english, german)]
            assert marks[0] == marks[1], (english, german)
            ends[marks[0]] += 1
    assert 0.09 < ends[""] / (ends[""] + ends["."]) < 0.11
