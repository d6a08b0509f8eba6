import json
import random
import statistics

import pytest
from ablation_fixtures import SENTENCES, results_of, write_run

from keras_transformer import Tokenizer
from keras_transformer.support.errors import InputError
from keras_transformer.train import evaluation
from keras_transformer.train.ablation import ablation_recipe, scaled_rows
from keras_transformer.train.ablation_report import (
    Outputs,
    average_path,
    paired_bootstrap,
    read_outputs,
    summarize,
    write_report,
)

WORDS = [f"word{i}" for i in range(50)]
ROWS = scaled_rows("tiny", ablation_recipe("tiny"))


def sentences(seed, count=60):
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=9)) for _ in range(count)]


def with_errors(lines, share, seed):
    """Returns the lines with a share of their words replaced."""
    generator = random.Random(seed)
    return [
        " ".join(
            "wrong" if generator.random() < share else word
            for word in line.split()
        )
        for line in lines
    ]


def outputs(hypotheses=(), bleu=0.0, perplexity=1.0):
    return Outputs(bleu, perplexity, list(hypotheses), 7, "digest")


REFERENCES = sentences(0)
BASE = with_errors(REFERENCES, 0.3, seed=1)


# === Significance ===


def test_a_planted_difference_is_found_and_none_between_equals():
    found = paired_bootstrap(
        {
            "base": {1: outputs(BASE)},
            "worse": {1: outputs(with_errors(BASE, 0.15, seed=2))},
            "better": {1: outputs(with_errors(REFERENCES, 0.1, seed=3))},
            "as good": {1: outputs(with_errors(REFERENCES, 0.3, seed=4))},
            "equal": {1: outputs(BASE)},
        },
        REFERENCES,
        "de",
    )[1]
    assert found["worse"] < 0.01
    assert found["better"] < 0.01
    assert found["as good"] > 0.05
    assert found["equal"] == 1.0


def test_a_row_is_compared_with_base_of_the_same_seed():
    other = with_errors(REFERENCES, 0.6, seed=5)
    as_good = with_errors(REFERENCES, 0.3, seed=4)  # as BASE
    found = paired_bootstrap(
        {
            "base": {1: outputs(BASE), 2: outputs(other), 3: outputs(other)},
            "row": {1: outputs(BASE), 2: outputs(as_good), 4: outputs(BASE)},
        },
        REFERENCES,
        "de",
    )
    assert found[1]["row"] == 1.0
    assert found[2]["row"] < 0.01
    assert found[3] == {}
    assert 4 not in found


def test_significance_does_not_depend_on_the_other_rows():
    row = {1: outputs(with_errors(BASE, 0.02, seed=6))}
    pair = {"base": {1: outputs(BASE)}, "row": row}
    more = {**pair, "first": {1: outputs(REFERENCES)}}
    more["row"] = more.pop("row")
    found = paired_bootstrap(pair, REFERENCES, "de")[1]["row"]
    assert 0.001 < found < 1
    assert paired_bootstrap(more, REFERENCES, "de")[1]["row"] == found


# === Figures over the seeds ===


def test_figures_are_means_over_the_seeds():
    base = {
        seed: outputs(BASE, bleu, perplexity)
        for seed, bleu, perplexity in ((1, 30, 5), (2, 32, 6), (3, 31, 8.5))
    }
    worse = with_errors(BASE, 0.3, seed=7)
    row = {
        1: outputs(BASE, 25.0, 7.0),
        3: outputs(worse, 29.0, None),
        4: outputs(worse, 99.0, 9.0),
    }
    found = summarize({"base": base, "row": row}, REFERENCES, "de")
    assert found["base"]["bleu"] == {
        "seeds": {1: 30, 2: 32, 3: 31},
        "mean": 31,
        "spread": 1.0,
    }
    assert found["base"]["perplexity"]["mean"] == 6.5
    assert "p" not in found["base"]
    assert found["row"]["perplexity"]["mean"] == 8.0
    # Of seeds 1 and 3, which both have.
    assert found["row"]["difference"] == -3.5
    p_values = found["row"]["p_values"]
    assert set(p_values) == {1, 3}
    assert p_values[1] == 1.0 and p_values[3] < 0.01
    assert found["row"]["p"] == statistics.mean(p_values.values())


def test_one_seed_has_no_spread_and_no_base_no_difference():
    found = summarize({"row": {1: outputs(BASE, 25.0)}}, REFERENCES, "de")
    assert found["row"]["bleu"]["mean"] == 25.0
    assert found["row"]["bleu"]["spread"] is None
    assert found["row"]["difference"] is None
    assert found["row"]["p"] is None


# === What runs have recorded ===


def record(run, bleu=20.0, lines=SENTENCES["valid"], **values):
    results = {**results_of("valid", len(lines), bleu), **values}
    path = run.find_checkpoint()
    evaluation.record(run, path, 2, results, lines)


def test_outputs_are_those_of_the_newest_evaluation(tmp_path, tokenizer):
    assert read_outputs(tmp_path / "run", "valid", 30) is None
    run = write_run(tmp_path / "run", tokenizer)
    assert read_outputs(run.path, "valid", 30) is None
    record(run, 19.0)
    record(run, 20.0, ["", "two\nlines", "\x85", *SENTENCES["valid"][3:]])
    found = read_outputs(run.path, "valid", 30)
    assert (found.bleu, found.perplexity) == (20.0, 80.0)
    assert found.hypotheses[:3] == ["", "two lines", ""]
    assert found.parameters == run.config.num_parameters
    assert read_outputs(run.path, "test", 30) is None
    assert read_outputs(run.path, "valid", 31) is None


@pytest.mark.parametrize(
    "values", [dict(beam_size=1), dict(alpha=1.0), dict(extra_length=5)]
)
def test_outputs_of_another_search_do_not_count(tmp_path, tokenizer, values):
    run = write_run(tmp_path / "run", tokenizer)
    record(run)
    assert read_outputs(run.path, "valid", 30)
    record(run, **values)
    assert read_outputs(run.path, "valid", 30) is None


def test_outputs_without_bleu_do_not_count(tmp_path, tokenizer):
    run = write_run(tmp_path / "run", tokenizer)
    record(run)
    file = run.path / "results.json"
    (results,) = json.loads(file.read_text())
    del results["bleu"]
    file.write_text(json.dumps([results]))
    assert read_outputs(run.path, "valid", 30) is None


# === Table ===

SETTINGS = dict(
    preset="tiny",
    target="de",
    steps=1_000,
    batch_tokens=4_096,
    steps_per_epoch=25,
    max_to_keep=5,
    dtype="float32",
)


def report(folder, failed=()):
    return write_report(
        folder, SETTINGS, ROWS, {"valid": SENTENCES["valid"]}, dict(failed)
    )


def test_the_table(tmp_path, tokenizer):
    wrong = [line + " x x" for line in SENTENCES["valid"]]
    for row, bleus, lines in (
        ("base", (30.0, 31.0), SENTENCES["valid"]),
        ("A-heads-1", (28.0, 29.5), wrong),
        ("E-learned-positions", (30.0,), SENTENCES["valid"]),
    ):
        for seed, bleu in enumerate(bleus, 1):
            path = average_path(tmp_path, row, seed)
            record(write_run(path, tokenizer), bleu, lines)
    text = report(tmp_path)
    parameters = (
        f"{write_run(tmp_path / 'a', tokenizer).config.num_parameters:,}"
    )
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert "1,000 steps of 4,096 tokens" in text
    assert "## valid, 30 sentences" in text
    assert rows[1:] == [
        f"| base |  |  | 2 | {parameters} | 69.50 ± 0.71 | 30.50 ± 0.71 |  |  "
        "| 4.92 | 25.8 |  |",
        f"| A-heads-1 | `num_heads` 8 → 1 | 4 → 1 | 2 | {parameters} | "
        "71.25 ± 1.06 | 28.75 ± 1.06 | -1.75 | 0.001 | 5.29 | 24.9 | -0.9 |",
        "| E-learned-positions | `positional_encoding` sinusoidal → learned | "
        f"sinusoidal → learned | 1 | {parameters} | 70.00 | 30.00 | +0.00 | "
        "1.000 | 4.92 | 25.7 | -0.1 |",
    ]
    cells = {line.count("|") for line in text.splitlines() if "|" in line}
    assert cells == {13}
    assert text == (tmp_path / "ablation.md").read_text()
    values = json.loads((tmp_path / "ablation.json").read_text())
    assert values["settings"] == SETTINGS
    row = values["rows"][1]
    assert (row["paper"], row["here"]) == ([8, 1], [4, 1])
    assert row["valid"]["p_values"].keys() == {"1", "2"}


def test_an_unfinished_run_is_not_in_the_table(tmp_path, tokenizer):
    run = write_run(average_path(tmp_path, "base", 1), tokenizer)
    assert "| base |" not in report(tmp_path)
    record(run)
    assert "| base |" in report(tmp_path)
    assert "Failed" not in report(tmp_path)
    assert "\nFailed: B, seed 1: why\n" in report(
        tmp_path, {"B, seed 1": "why"}
    )


def test_runs_with_different_tokenizers_are_refused(tmp_path, tokenizer):
    other = Tokenizer.train(SENTENCES["train"], 300)
    for row, its in (("base", tokenizer), ("A-heads-1", other)):
        record(write_run(average_path(tmp_path, row, 1), its))
    with pytest.raises(InputError, match="base/seed-1 .* A-heads-1/seed-1"):
        report(tmp_path)
