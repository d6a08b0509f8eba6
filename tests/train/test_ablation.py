import json
import shutil
from fractions import Fraction

import digits
import pytest
from ablation_fixtures import SENTENCES, calls, corpus  # noqa: F401
from generated_treebank import write_treebank

from keras_transformer.config import TransformerConfig
from keras_transformer.presets import PRESETS, Preset
from keras_transformer.support.errors import InputError
from keras_transformer.train import trainer
from keras_transformer.train.ablation import (
    ablate,
    ablation_recipe,
    scaled_rows,
)
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.recipe import Recipe
from keras_transformer.train.run import TrainingRun

TABLE_3 = [n for n, p in PRESETS.items() if p.paper_bleu and n != "big"]


def rows_of(preset, **recipe):
    rows = scaled_rows(preset, ablation_recipe(preset, **recipe))
    return {row.name: row for row in rows}


# === Rows ===


def test_at_the_size_of_base_the_rows_are_those_of_the_paper():
    rows = rows_of("base")
    assert list(rows) == TABLE_3
    for name, row in rows.items():
        found = TransformerConfig.from_preset("base", **row.architecture)
        assert found == TransformerConfig.from_preset(name)
        found = Recipe.from_preset("base", **row.recipe)
        assert found == Recipe.from_preset(name)
        assert row.paper == row.here
        assert (row.field is None) == (name == "base")


@pytest.mark.parametrize("preset", ["tiny", "small", "multi30k"])
def test_sizes_have_the_ratio_of_the_paper(preset):
    base = TransformerConfig.from_preset("base").to_dict()
    ours = TransformerConfig.from_preset(preset).to_dict()
    sizes = 0
    for name, row in rows_of(preset).items():
        assert set(row.architecture) <= set(PRESETS[name].architecture)
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


def test_rows_at_the_size_of_tiny():
    rows = rows_of("tiny")
    values = {name: row.architecture for name, row in rows.items()}
    assert [values[f"A-heads-{n}"] for n in (1, 4, 16, 32)] == [
        {"num_heads": n} for n in (1, 2, 8, 16)
    ]
    assert [values[f"B-d_k-{n}"] for n in (16, 32)] == [{"d_k": 8}, {"d_k": 16}]
    assert values["C-layers-8"] == {"num_layers": 3}
    assert values["C-d_model-256"] == {"d_model": 64, "d_k": 16, "d_v": 16}
    assert values["D-dropout-0.0"] == {"dropout": 0.0}
    assert rows["C-d_ff-4096"].paper == (2048, 4096)
    assert rows["C-d_ff-4096"].here == (512, 1024)
    assert rows["D-smoothing-0.2"].here == (0.1, 0.2)


def test_rows_that_would_be_equal_are_left_out():
    # Of 2 layers, a third and two thirds are both one layer.
    assert set(TABLE_3) - set(rows_of("tiny")) == {"C-layers-4"}
    assert set(TABLE_3) == set(rows_of("small"))
    rows = rows_of("small", label_smoothing=0.2)
    assert set(TABLE_3) - set(rows) == {"D-smoothing-0.2"}


def test_the_recipe_has_checkpoints_to_average():
    assert ablation_recipe("tiny") == Recipe.from_preset(
        "tiny", steps_per_epoch=25, scored_sentences=0
    )
    recipe = ablation_recipe("tiny", steps=30, scored_sentences=7)
    assert (recipe.steps_per_epoch, recipe.scored_sentences) == (1, 7)
    recipe = ablation_recipe("tiny", steps=400, steps_per_epoch=100)
    assert (recipe.steps, recipe.steps_per_epoch) == (400, 100)


# === Runs ===


def run_ablation(corpus, path, rows=("D-dropout-0.2",), seeds=2, **recipe):
    values = {"steps": 80, **recipe}
    recipe = ablation_recipe("tiny", **values)
    return ablate(corpus, path, "tiny", recipe, rows=rows, seeds=seeds)


def trained(calls):
    return [call[1:] for call in calls if call[0] == "train"]


def test_every_row_is_trained_with_every_seed(corpus, tmp_path, calls):
    table = run_ablation(corpus, tmp_path / "x", ["D-smoothing-0.2"])
    name = "D-smoothing-0.2"
    assert trained(calls) == [("base", 1), (name, 1), ("base", 2), (name, 2)]
    assert calls[:4] == [
        ("train", "base", 1),
        ("average", 1),  # all checkpoints that this training has written
        ("evaluate", "base", "valid"),
        ("evaluate", "base", "test"),
    ]
    preset, recipe, architecture, _ = calls.last
    assert (preset, architecture) == ("tiny", {})
    assert recipe == ablation_recipe(
        "tiny", steps=80, seed=2, label_smoothing=0.2
    )
    assert (tmp_path / "x" / "ablation.md").read_text() == table
    values = json.loads((tmp_path / "x" / "ablation.json").read_text())
    assert values["settings"]["steps"] == 80
    assert [row["name"] for row in values["rows"]] == ["base", name]
    for split in ("valid", "test"):
        base, row = (row[split] for row in values["rows"])
        assert base["bleu"]["seeds"] == {"1": 11.0, "2": 12.0}
        assert row["bleu"]["mean"] == 1.5
        assert row["difference"] == -10
        assert row["p"] < 0.01


def test_what_is_finished_is_skipped(corpus, tmp_path, calls, capsys):
    table = run_ablation(corpus, tmp_path / "x")
    calls.clear()
    capsys.readouterr()
    assert run_ablation(corpus, tmp_path / "x") == table
    assert calls == []
    assert "4 of 4 runs are finished" in capsys.readouterr().out


def test_an_evaluation_that_is_missing_is_made_up_for(
    corpus, tmp_path, calls, capsys
):
    table = run_ablation(corpus, tmp_path / "x")
    run = tmp_path / "x" / "base" / "seed-2-average"
    (run / "translations-test.txt").unlink()
    # As if it had been stopped between training and average.
    shutil.rmtree(tmp_path / "x" / "D-dropout-0.2" / "seed-1-average")
    shutil.rmtree(tmp_path / "x" / "D-dropout-0.2" / "seed-1")
    calls.clear()
    assert run_ablation(corpus, tmp_path / "x") == table
    assert [call for call in calls if call[0] != "average"] == [
        ("train", "D-dropout-0.2", 1),
        ("evaluate", "D-dropout-0.2", "valid"),
        ("evaluate", "D-dropout-0.2", "test"),
        ("evaluate", "base", "test"),
    ]
    assert "2 of 4 runs are finished" in capsys.readouterr().out


def test_rows_and_seeds_can_be_added(corpus, tmp_path, calls):
    run_ablation(corpus, tmp_path / "x", [], seeds=1)
    assert trained(calls) == [("base", 1)]
    calls.clear()
    table = run_ablation(corpus, tmp_path / "x", ["A-heads-4"])
    name = "A-heads-4"
    assert trained(calls) == [(name, 1), ("base", 2), (name, 2)]
    calls.clear()
    # The table has what is in the folder.
    assert run_ablation(corpus, tmp_path / "x", ["base"], seeds=1) == table


def test_other_settings_and_data_are_refused(corpus, tmp_path, calls):
    run_ablation(corpus, tmp_path / "x", seeds=1)
    with pytest.raises(InputError, match="Received: steps=90 instead of 80"):
        run_ablation(corpus, tmp_path / "x", steps=90, steps_per_epoch=2)
    (tmp_path / "data" / "test.de").write_text("other\n" * 30)
    with pytest.raises(InputError, match="Received: checksums="):
        run_ablation(corpus, tmp_path / "x", seeds=1)
    (tmp_path / "x" / "ablation.json").write_text("[]")
    with pytest.raises(InputError, match=r"ablation\.json must be what"):
        run_ablation(corpus, tmp_path / "x", seeds=1)


def test_a_row_that_fails_does_not_stop_the_others(
    corpus, tmp_path, calls, capsys
):
    calls.fail = ("A-heads-4",)
    rows = ("A-heads-4", "A-heads-16")
    with pytest.raises(InputError, match="Received: A-heads-4, seed 1\\."):
        run_ablation(corpus, tmp_path / "x", rows, seeds=1)
    assert trained(calls)[-1] == ("A-heads-16", 1)
    table = (tmp_path / "x" / "ablation.md").read_text()
    assert "\nFailed: A-heads-4, seed 1: The loss is not finite\n" in table
    assert "| A-heads-16 |" in table and "| A-heads-4 |" not in table
    assert table in capsys.readouterr().out
    calls.fail = ()
    assert "Failed" not in run_ablation(corpus, tmp_path / "x", rows, seeds=1)


def test_base_that_fails_stops_the_ablation(corpus, tmp_path, calls):
    calls.fail = ("base",)
    with pytest.raises(InputError, match="The loss is not finite"):
        run_ablation(corpus, tmp_path / "x")
    assert calls == [("train", "base", 1)]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (dict(rows=["C-layers-4"]), "Rows at this size .*: C-layers-4$"),
        (dict(rows=["big"]), "Received: big$"),
        (dict(seeds=0), "at least 1. Received: seeds=0"),
    ],
)
def test_invalid_arguments(corpus, tmp_path, calls, values, message):
    with pytest.raises(InputError, match=message):
        run_ablation(corpus, tmp_path / "x", **values)
    assert not (tmp_path / "x").exists()


def test_data_without_validation_are_refused(corpus, tmp_path, calls):
    (tmp_path / "data" / "valid.en").unlink()
    (tmp_path / "data" / "valid.de").unlink()
    corpus = open_corpus([str(tmp_path / "data")], "en", "de")
    with pytest.raises(InputError, match="valid. Received: .* train, test"):
        run_ablation(corpus, tmp_path / "x")


def test_a_treebank_is_refused(tmp_path, calls):
    write_treebank(tmp_path, train=3, valid=3)
    corpus = open_corpus([str(tmp_path)])
    with pytest.raises(InputError, match="Received: a corpus for parsing"):
        run_ablation(corpus, tmp_path / "x")


def test_by_default_there_are_all_rows(corpus, tmp_path, calls, capsys):
    calls.fail = ("base",)  # the others would take long
    with pytest.raises(InputError, match="not finite"):
        run_ablation(corpus, tmp_path / "x", None)
    out = capsys.readouterr().out
    assert "C-layers-4 is left out" in out
    assert f"0 of {2 * (len(TABLE_3) - 1)} runs are finished" in out


@pytest.mark.slow
def test_a_real_ablation_of_two_steps(tmp_path, monkeypatch):
    """Training, averaging and evaluating fit together."""
    preset = Preset(description="for this test", architecture=digits.TINY)
    monkeypatch.setitem(PRESETS, "digits", preset)
    folder = tmp_path / "data"
    folder.mkdir()
    digits.write(folder)
    for code in ("en", "de"):
        lines = (folder / f"valid.{code}").read_text().splitlines(True)
        (folder / f"valid.{code}").write_text("".join(lines[:4]))
    corpus = open_corpus([str(folder)], "en", "de")
    recipe = digits.recipe(steps=2, steps_per_epoch=1, scored_sentences=0)
    arguments = (corpus, tmp_path / "x", "digits", recipe)
    table = ablate(*arguments, rows=["base"], seeds=1)
    run = TrainingRun.open(tmp_path / "x" / "base" / "seed-1-average")
    assert len(run.recipe["averaged"]) == 2
    assert f"| base |  |  | 1 | {run.config.num_parameters:,} | " in table

    def train(*_, **__):
        raise AssertionError("trained again")

    monkeypatch.setattr(trainer, "train", train)
    assert ablate(*arguments, rows=["base"], seeds=1) == table
