"""The rows and the table of benchmarks/table3.py; it trains in no test."""

import importlib.util
import random
from fractions import Fraction

import pytest
from documents import ROOT

from keras_transformer.config import TransformerConfig
from keras_transformer.presets import PRESETS
from keras_transformer.train.recipe import Recipe

TABLE_3 = [n for n, p in PRESETS.items() if p.paper_bleu and n != "big"]


@pytest.fixture(scope="module")
def table3():
    path = ROOT / "benchmarks" / "table3.py"
    spec = importlib.util.spec_from_file_location("table3", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows_of(table3, preset, **recipe):
    rows = table3.scaled_rows(preset, table3.make_recipe(preset, **recipe))
    return {row.name: row for row in rows}


def test_at_the_size_of_base_the_rows_are_those_of_the_paper(table3):
    rows = rows_of(table3, "base")
    assert list(rows) == TABLE_3
    for name, row in rows.items():
        found = TransformerConfig.from_preset("base", **row.architecture)
        assert found == TransformerConfig.from_preset(name)
        found = Recipe.from_preset("base", **row.recipe)
        assert found == Recipe.from_preset(name)
        assert row.paper == row.here
        assert (row.field is None) == (name == "base")


def test_sizes_have_the_ratio_of_the_paper(table3):
    base = TransformerConfig.from_preset("base").to_dict()
    ours = TransformerConfig.from_preset("tiny").to_dict()
    rows = rows_of(table3, "tiny")
    sizes = 0
    for name, row in rows.items():
        for key, value in PRESETS[name].architecture.items():
            found = row.architecture.get(key, ours[key])
            if isinstance(value, int):
                exact = ours[key] * Fraction(value, base[key])
                assert found == max(1, round(exact))
                sizes += 1
            else:
                assert found == value
        assert row.recipe == PRESETS[name].recipe
    assert sizes >= 14
    assert rows["C-d_ff-4096"].paper == (2048, 4096)
    assert rows["C-d_ff-4096"].here == (512, 1024)
    assert rows["D-smoothing-0.2"].here == (0.1, 0.2)


def test_rows_that_would_be_equal_are_left_out(table3):
    # Of 2 layers, a third and two thirds are both one layer.
    assert set(TABLE_3) - set(rows_of(table3, "tiny")) == {"C-layers-4"}
    rows = rows_of(table3, "small", label_smoothing=0.2)
    assert set(TABLE_3) - set(rows) == {"D-smoothing-0.2"}


def sentences(seed, share=0.0, of=None):
    """Returns sentences, or some with a share of their words replaced."""
    generator = random.Random(seed)
    if of is None:
        return [
            " ".join(f"word{generator.randrange(50)}" for _ in range(9))
            for _ in range(60)
        ]
    return [
        " ".join(
            "wrong" if generator.random() < share else word
            for word in line.split()
        )
        for line in of
    ]


REFERENCES = sentences(0)
BASE = sentences(1, 0.3, REFERENCES)


def test_a_planted_difference_is_found_and_none_between_equals(table3):
    def output(hypotheses):
        return table3.Output(7, 1.0, 0.0, hypotheses)

    found = table3.paired_bootstrap(
        {
            "base": {1: output(BASE), 2: output(BASE)},
            "worse": {1: output(sentences(2, 0.15, BASE))},
            "better": {1: output(sentences(3, 0.1, REFERENCES))},
            "as good": {1: output(sentences(4, 0.3, REFERENCES))},
            "equal": {1: output(BASE), 3: output(BASE)},
        },
        REFERENCES,
        "de",
    )
    assert found[1]["worse"] < 0.01
    assert found[1]["better"] < 0.01
    assert found[1]["as good"] > 0.05
    assert found[1]["equal"] == 1.0
    assert found[2] == {} and 3 not in found
