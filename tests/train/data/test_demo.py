"""The bundled corpus: its sizes, and no sentence in two splits."""

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


def test_the_demonstration_is_not_known(sides):
    pairs = list(zip(sides["train", "en"], sides["train", "de"], strict=True))
    assert pairs[0] == ("I am a student.", "Ich bin Student.")
    assert ("I am a student", "Ich bin Student") not in pairs


@pytest.mark.parametrize("language", ["en", "de"])
def test_no_sentence_occurs_twice(sides, language):
    sentences = [
        " ".join(words(sentence)).lower()
        for split in SIZES
        for sentence in sides[split, language]
    ]
    assert len(set(sentences)) == len(sentences) == 25_000
