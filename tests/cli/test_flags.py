import dataclasses
import re

import cyclopts
import pytest

from keras_transformer.cli import flags
from keras_transformer.config import TransformerConfig
from keras_transformer.decoding.settings import BeamSearch, Sampling
from keras_transformer.train.data.filters import PairFilters
from keras_transformer.train.recipe import Recipe


def parsed(annotation, words):
    """Returns what a command gets of flags."""

    def command(*, values: annotation = None):
        return values

    app = cyclopts.App(default_parameter=cyclopts.Parameter(negative=()))
    app.default(command)
    return app(words, exit_on_error=False, result_action="return_value")


def words_of(values):
    return [
        word
        for name, value in values.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]


def test_only_flags_that_are_given_have_values():
    recipe = flags.flags_of(Recipe, "Recipe")
    assert parsed(recipe, []) is None
    assert parsed(recipe, ["--steps", "7"]) == {"steps": 7}


@pytest.mark.parametrize("cls", [BeamSearch, Sampling, Recipe])
def test_all_fields_are_flags_with_their_types(cls):
    numbers = {int: 3, float: 0.5, int | None: 3, float | None: 0.5}
    values = {}
    for field in dataclasses.fields(cls):
        choices = field.metadata["rule"].choices
        values[field.name] = choices[-1] if choices else numbers.get(field.type)
    switches = [name for name, value in values.items() if value is None]
    assert all(cls.__annotations__[name] is bool for name in switches)
    words = [f"--{name.replace('_', '-')}" for name in switches]
    values |= dict.fromkeys(switches, True)
    words += words_of({k: v for k, v in values.items() if k not in switches})
    found = parsed(flags.flags_of(cls, "Title"), words)
    assert found == values
    assert all(type(found[name]) is type(values[name]) for name in values)


def test_a_seed_may_have_32_bits_and_the_library_checks_ranges():
    recipe = flags.flags_of(Recipe, "Recipe")
    assert parsed(recipe, ["--seed", str(2**32 - 1)]) == {"seed": 2**32 - 1}
    assert parsed(recipe, ["--steps", "-1"]) == {"steps": -1}


@pytest.mark.parametrize("word", ["0", "-3"])
def test_positive_integers(word):
    with pytest.raises(cyclopts.ValidationError, match=word):
        parsed(flags.PositiveInteger, ["--values", word])


def test_fields_that_are_not_flags():
    some = flags.flags_of(TransformerConfig, "A", without=("dropout",))
    assert parsed(some, ["--d-model", "8"]) == {"d_model": 8}
    with pytest.raises(cyclopts.UnknownOptionError):
        parsed(some, ["--dropout", "0.5"])


def test_the_help(capsys):
    def command(
        *,
        recipe: flags.flags_of(
            Recipe, "Recipe", common=("steps",), defaults={"steps": 6000}
        ) = None,
        search: flags.SearchFlags = None,
    ):
        pass

    app = cyclopts.App()
    app.default(command)
    app(["--help"], result_action="return_value")
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "Number of updates. [default: 6000]" in text
    assert text.index("Recipe, rarely needed") < text.index("--vocab-size ")
    assert "[default: none]" in text and "None" not in text
    assert "[default: 50, unless the run has its own]" in text
    assert "Tokens allowed beyond the length factor" in text


@pytest.mark.parametrize(
    "cls",
    [
        *(BeamSearch, Sampling),
        *(Recipe, PairFilters, TransformerConfig),
    ],
)
def test_help_names_no_arguments(cls):
    names = {field.name for field in dataclasses.fields(cls)}
    for field in dataclasses.fields(cls):
        words = set(re.findall(r"\w+_\w+", field.metadata["description"]))
        assert not words & names
