"""`prepare`, and `train` on what it wrote."""

import json
import types

import pytest
from commands import write_corpus

from keras_transformer.presets import PRESETS
from keras_transformer.train.data.encoding import Statistics
from keras_transformer.train.data.filters import PairFilters
from keras_transformer.train.recipe import Recipe

LANGUAGES = ("--source", "en", "--target", "de")


@pytest.fixture
def data(tmp_path):
    english = "".join(f"the cat {i}\n" for i in [*range(60), 0, 0])
    german = "".join(f"die Katze {i}\n" for i in [*range(60), 0, 0])
    english, german = (text + "Hund\n" for text in (english, german))
    return write_corpus(tmp_path / "data", train_en=english, train_de=german)


def test_prepare(run_cli, data, tmp_path):
    folder = tmp_path / "with space"
    result = run_cli(
        *("prepare", data, *LANGUAGES, "--output", folder),
        *("--preset", "tiny", "--vocab-size", 300, "--max-length", 23),
        *("--max-ratio", 3, "--deduplicate", "--drop-identical"),
        *("--min-letters", 0.1, "--dropped", tmp_path / "dropped.tsv"),
    )
    assert result.code == 0
    assert "train: 60 pairs kept" in result.out
    assert ", 1 with identical sides and 2 that occurred before\n" in result.out
    assert (tmp_path / "dropped.tsv").read_text() == (
        "duplicate\tthe cat 0\tdie Katze 0\n"
        "duplicate\tthe cat 0\tdie Katze 0\n"
        "identical\tHund\tHund\n"
    )
    description = json.loads((folder / "prepared.json").read_bytes())
    assert description["filters"] == {
        "max_ratio": 3,
        "deduplicate": True,
        "drop_identical": True,
        "min_letters": 0.1,
    }
    assert result.out.endswith(f"The corpus is in {folder}\n")


def test_prepare_has_the_sizes_of_the_preset(run_cli, monkeypatch, tmp_path):
    calls = []

    def prepare(corpus, output, *arguments):
        calls.append(arguments)
        return types.SimpleNamespace(
            path=output, statistics=Statistics(), max_length=9
        )

    monkeypatch.setattr("keras_transformer.train.preparation.prepare", prepare)
    none = PairFilters(), None
    arguments = ("prepare", "embedded", "--output", tmp_path / "new")
    assert run_cli(*arguments, "--preset", "base").code == 0
    assert run_cli(*arguments).code == 0
    recipes = [Recipe.from_preset(name) for name in ("base", "small")]
    assert calls == [(recipe, None, *none) for recipe in recipes]
    assert PRESETS["base"].vocab_size == recipes[0].vocab_size
    model = tmp_path / "any.model"
    assert run_cli(*arguments, "--tokenizer", model).code == 0
    assert calls[2][1] == [model]
