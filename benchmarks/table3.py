"""Repeats rows A to E of the paper's Table 3 at the size of a preset.

python benchmarks/table3.py FOLDER --source en --target de --output OUT

Trains every row with every seed, averages the last checkpoints, evaluates on
valid and test, and writes OUT/table3.md, with the paper's figures beside ours.
The flags of the recipe are those of `keras-transformer train`. The same command
resumes; rows and seeds may be added. OUT/ROW/seed-N is a run, its -average the
mean of its last checkpoints, and the .json beside it what that produced.

Paired bootstrap: Koehn (2004), "Statistical Significance Tests for Machine
Translation Evaluation".
"""

import dataclasses
import json
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

import keras_transformer as kt
from keras_transformer.cli import terminal
from keras_transformer.cli.command_line import make_app, run_app
from keras_transformer.cli.flags import (
    CorpusFlag,
    PositiveInteger,
    flags_of,
)
from keras_transformer.presets import PRESETS
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write, write_json
from keras_transformer.support.startup import decoding_workers
from keras_transformer.train.averaging import average
from keras_transformer.train.evaluation import evaluate
from keras_transformer.train.recipe import Recipe

# What scales with the model. The other values of Table 3 are rates and kinds.
_SIZES = ("num_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v")
_CHECKPOINTS = 40  # the last 5 are of the last eighth of the training
_NOTES = """
PPL is per token, BLEU is sacreBLEU's: means over the seeds, ± the standard
deviation over the seeds, which is the chance of training. The difference is
that to base, over the seeds that both have. p is the chance of the sentences:
sacreBLEU's paired bootstrap of a row and base with the same seed, the median
over the seeds, and 1 for equal translations. It is one-sided: of two equally
good systems, p is below 0.05 in one of ten comparisons. A difference counts
if p is small and the difference is larger than both spreads. The paper's
figures are of newstest2013.
"""


class Row(NamedTuple):
    """A row of Table 3 at the size of a preset."""

    name: str  # its preset
    field: str | None  # the value that the row is about; None for base
    paper: tuple[Any, Any] | None  # that value in the paper's base and row
    here: tuple[Any, Any] | None  # the same at this size
    architecture: dict[str, Any]  # what differs from the preset
    recipe: dict[str, Any]


class Output(NamedTuple):
    """What a run produced for a split."""

    parameters: int
    perplexity: float | None
    bleu: float
    hypotheses: list[str]


Outputs = dict[str, dict[int, Output]]  # by row and seed


def scaled_rows(preset: str, recipe: Recipe) -> list[Row]:
    """Returns base and rows A to E with a preset instead of base.

    Sizes keep their ratio to those of base, rounded to an integer that is at
    least 1. Dropout, label smoothing and positions are the paper's. A row that
    would equal an earlier one is left out: with 2 layers instead of 6,
    both 2 and 4 layers become one.
    """

    def values(preset: str, recipe: Recipe) -> dict[str, Any]:
        config = kt.TransformerConfig.from_preset(preset)
        return config.to_dict() | dataclasses.asdict(recipe)

    paper = values("base", Recipe.from_preset("base"))
    base = values(preset, recipe)
    rows: dict[str, Row] = {}  # by what differs
    for name, row in PRESETS.items():
        if row.paper_bleu is None or name == "big":
            continue
        of_paper = {**row.architecture, **row.recipe}
        scaled = {
            key: max(1, round(value * base[key] / paper[key]))
            if key in _SIZES
            else value
            for key, value in of_paper.items()
        }
        changed = {k: v for k, v in scaled.items() if v != base[k]}
        field = next(iter(of_paper), None)
        rows.setdefault(
            str(sorted(changed.items())),
            Row(
                name,
                field,
                field and (paper[field], of_paper[field]),
                field and (base[field], scaled[field]),
                {k: v for k, v in changed.items() if k in row.architecture},
                {k: v for k, v in changed.items() if k in row.recipe},
            ),
        )
    return list(rows.values())


def make_recipe(preset: str, **values: Any) -> Recipe:
    """Returns the recipe of a preset with enough checkpoints to average."""
    steps = Recipe.from_preset(preset, **values).steps
    values.setdefault("steps_per_epoch", max(1, steps // _CHECKPOINTS))
    return Recipe.from_preset(preset, **{"scored_sentences": 0, **values})


def run_row(
    corpus: kt.train.Corpus, path: Path, preset: str, row: Row, recipe: Recipe
) -> None:
    """Trains and evaluates a row with a seed, unless that was done."""
    done = path.with_name(f"{path.name}-average.json")
    if done.exists():
        return
    keras.backend.clear_session()  # frees the memory of finished models
    run = kt.train.train(
        corpus,
        path,
        preset,
        dataclasses.replace(recipe, **row.recipe),
        architecture=row.architecture,
        strategy=kt.train.open_strategy(),
    )
    mean = done.with_suffix("")
    if not (mean / "config.json").exists():
        average(run, mean)
    translator = kt.open_translator(mean)
    outputs = {}
    scoring = (corpus.target, decoding_workers(), ["bleu"])
    for split in _splits(corpus):
        results, hypotheses = evaluate(translator, corpus, split, *scoring)
        outputs[split] = {
            "parameters": run.config.num_parameters,
            "perplexity": results["perplexity"],
            "bleu": results["bleu"],
            "hypotheses": hypotheses,
        }
    write_json(done, outputs)


def _splits(corpus: kt.train.Corpus) -> list[str]:
    return [split for split in ("valid", "test") if split in corpus.splits]


def read_outputs(folder: Path, rows: Sequence[Row], split: str) -> Outputs:
    """Returns the outputs of the runs that are finished."""
    found: Outputs = {}
    for row in rows:
        for path in sorted((folder / row.name).glob("seed-*-average.json")):
            output = Output(**json.loads(path.read_text("utf-8"))[split])
            found.setdefault(row.name, {})[int(path.name.split("-")[1])] = (
                output
            )
    return found


def paired_bootstrap(
    outputs: Outputs, references: list[str], language: str
) -> dict[int, dict[str, float]]:
    """Compares each row with base, seed by seed; returns p by seed and row.

    The seeds are not pooled: translations of one sentence by several runs are
    not independent, which the bootstrap would take them to be. sacreBLEU
    fixes the random numbers.
    """
    p_values = {}
    for seed, base in outputs["base"].items():
        systems = {
            row: seeds[seed].hypotheses
            for row, seeds in outputs.items()
            if row != "base" and seed in seeds
        }
        _, scores = PairedTest(
            [("base", base.hypotheses), *systems.items()],
            {"BLEU": BLEU(trg_lang=language)},
            [references],
            test_type="bs",
        )()
        p_values[seed] = {
            # sacreBLEU has the smallest p for a difference of exactly 0.
            row: 1.0 if hypotheses == base.hypotheses else result.p_value
            for (row, hypotheses), result in zip(
                systems.items(), scores["BLEU"][1:], strict=True
            )
        }
    return p_values


def table(
    rows: Sequence[Row], outputs: Outputs, references: list[str], language: str
) -> str:
    """Returns the figures of a split in Markdown."""
    lines = [
        "| row | in the paper | here | seeds | parameters | PPL | BLEU | "
        "difference | p | paper: PPL | BLEU | difference |",
        "|---" * 12 + "|",
    ]
    base, p_values = outputs["base"], {}
    if len(outputs) > 1:
        p_values = paired_bootstrap(outputs, references, language)
    for row in (row for row in rows if row.name in outputs):
        seeds, preset = outputs[row.name], PRESETS[row.name]
        change = paper_difference = difference = p = ""
        if row.name != "base":
            change = f"`{row.field}` {row.paper[0]} → {row.paper[1]}"
            gain = preset.paper_bleu - PRESETS["base"].paper_bleu
            paper_difference = f"{gain:+.1f}"
        shared = seeds.keys() & base.keys() if row.name != "base" else ()
        if shared:
            gain = statistics.mean(seeds[s].bleu - base[s].bleu for s in shared)
            difference = f"{gain:+.2f}"
            p = statistics.median(p_values[s][row.name] for s in shared)
            p = f"{p:.3f}"
        cells = (
            row.name,
            change,
            f"{row.here[0]} → {row.here[1]}" if row.here else "",
            len(seeds),
            f"{next(iter(seeds.values())).parameters:,}",
            _over_seeds(of.perplexity for of in seeds.values()),
            _over_seeds(of.bleu for of in seeds.values()),
            difference,
            p,
            f"{preset.paper_perplexity:.2f}",
            f"{preset.paper_bleu:.1f}",
            paper_difference,
        )
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def _over_seeds(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return f"{known[0]:.2f}" if known else ""
    return f"{statistics.mean(known):.2f} ± {statistics.stdev(known):.2f}"


def main(
    data: CorpusFlag,
    *,
    output: Path,
    source: str | None = None,
    target: str | None = None,
    preset: str = "tiny",
    rows: list[str] | None = None,
    seeds: PositiveInteger = 3,
    recipe: flags_of(Recipe, "Recipe", without=("seed",)) = None,
) -> None:
    """Run what is missing, and write the table after every seed.

    Args:
        data: The corpus, as `train` takes it.
        output: Folder.
        source: Language code of the source.
        target: Language code of the target.
        preset: The preset that stands for base.
        rows: Rows besides base (default: all).
        seeds: Runs per row.
        recipe: Values that differ from those of the preset.
    """
    recipe = make_recipe(preset, **(recipe or {}))
    corpus = kt.train.open_corpus(data, source, target)
    all_rows = scaled_rows(preset, recipe)
    chosen = {row.name for row in all_rows}
    if rows:
        if unknown := set(rows) - chosen:
            raise InputError(f"rows are {sorted(chosen)}. Received: {unknown}")
        chosen = {"base", *rows}
    settings = {"preset": preset, "data": corpus.name}
    settings |= dataclasses.asdict(recipe)
    file = output / "settings.json"
    output.mkdir(parents=True, exist_ok=True)
    if file.exists() and json.loads(file.read_text("utf-8")) != settings:
        raise InputError(f"{output} has runs with other settings")
    write_json(file, settings)
    failed = []
    for seed in range(1, seeds + 1):
        for row in all_rows:
            if row.name not in chosen:
                continue
            print(f"\n== {row.name}, seed {seed} of {seeds}")
            path = output / row.name / f"seed-{seed}"
            seeded = dataclasses.replace(recipe, seed=seed)
            try:
                run_row(corpus, path, preset, row, seeded)
            except (InputError, tf.errors.ResourceExhaustedError) as error:
                if row.name == "base":
                    raise
                failed.append(f"\nFailed: {row.name}, seed {seed}: {error}\n")
        text = f"# Table 3 with {preset} instead of base\n"
        for split in _splits(corpus):
            references = [target for _, target in corpus.pairs(split)]
            outputs = read_outputs(output, all_rows, split)
            text += f"\n## {split}, {len(references):,} sentences\n\n"
            text += table(all_rows, outputs, references, corpus.target)
        text += _NOTES + "".join(failed)
        with atomic_write(output / "table3.md") as partial:
            partial.write_text(text, "utf-8")
    print(f"\n{text}")
    if failed:
        raise SystemExit("Some rows failed; the same command tries them again.")


app = make_app("table3.py", __doc__.splitlines()[0])
app.default(main)

if __name__ == "__main__":
    sys.exit(terminal.run(lambda words: run_app(app, words)))
