"""Table 3 of the paper at another size: a run per row and seed.

FOLDER/ROW/seed-N            a run
FOLDER/ROW/seed-N-average    the mean of its last checkpoints, evaluated
FOLDER/ablation.json         settings and results
FOLDER/ablation.md           the table

`ablation_report.py` computes and writes the results.
"""

import dataclasses
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.config import TransformerConfig
from keras_transformer.inference.translator import Translator
from keras_transformer.presets import PRESETS
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import write_json
from keras_transformer.support.startup import decoding_workers
from keras_transformer.tasks import TranslationTask
from keras_transformer.train import averaging, evaluation, trainer
from keras_transformer.train.ablation_report import (
    SPLITS,
    average_path,
    read_outputs,
    write_report,
)
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.recipe import Recipe
from keras_transformer.train.run import TrainingRun, locked

# What scales with the model. The other values of Table 3 are rates and kinds.
_SIZES = ("num_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v")
_CHECKPOINTS = 40


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of Table 3 at the size of a preset.

    Args:
        name: Its preset.
        field: The value that the row is about; None for base.
        paper: That value in the paper's base and in the paper's row.
        here: The same of the preset that takes the place of base.
        architecture: Arguments of `TransformerConfig` that differ from it.
        recipe: Arguments of `Recipe` that differ from it.
    """

    name: str
    field: str | None
    paper: tuple[Any, Any] | None
    here: tuple[Any, Any] | None
    architecture: dict[str, Any]
    recipe: dict[str, Any]


def scaled_rows(preset: str, recipe: Recipe) -> list[Row]:
    """Returns base and rows A to E with a preset in the place of base.

    Sizes keep their ratio to those of base, rounded to an integer that is at
    least 1. Dropout, label smoothing and positions are the paper's. A row that
    would equal an earlier one is left out: with 2 layers in the place of 6,
    both 2 and 4 layers become one.

    Args:
        preset: Name of the architecture.
        recipe: How it is trained.

    Raises:
        InputError: If there is no such preset.
    """
    paper = _values("base", Recipe.from_preset("base"))
    base = _values(preset, recipe)
    rows, seen = [], []
    for name in _names():
        of_paper = {**PRESETS[name].architecture, **PRESETS[name].recipe}
        values = {
            key: _scale(value, base[key] / paper[key])
            if key in _SIZES
            else value
            for key, value in of_paper.items()
        }
        changed = {k: v for k, v in values.items() if v != base[k]}
        if changed in seen:
            continue
        seen.append(changed)
        field = next(iter(of_paper), None)
        in_recipe = {k: changed[k] for k in PRESETS[name].recipe}
        rows.append(
            Row(
                name,
                field,
                field and (paper[field], of_paper[field]),
                field and (base[field], values[field]),
                {k: v for k, v in changed.items() if k not in in_recipe},
                in_recipe,
            )
        )
    return rows


def _names() -> list[str]:
    """Returns the presets of Table 3 but big, which changes several values."""
    return [
        name
        for name, preset in PRESETS.items()
        if preset.paper_bleu is not None and name != "big"
    ]


def _values(preset: str, recipe: Recipe) -> dict[str, Any]:
    config = TransformerConfig.from_preset(preset)
    return config.to_dict() | dataclasses.asdict(recipe)


def _scale(value: int, ratio: float) -> int:
    return max(1, round(value * ratio))


def ablation_recipe(preset: str, **values: Any) -> Recipe:
    """Returns the recipe of a preset for the rows of an ablation.

    Unless given, `steps_per_epoch` is a 40th of the steps, so that the last 5
    checkpoints are of the last tenth of training; and nothing is translated
    during training, of which the table needs none.

    Args:
        preset: Name of the preset.
        **values: Arguments of `Recipe` that replace the preset's.

    Raises:
        InputError: If there is no such preset, or values are invalid.
    """
    steps = Recipe.from_preset(preset, **values).steps
    return Recipe.from_preset(
        preset,
        **{
            "steps_per_epoch": max(1, steps // _CHECKPOINTS),
            "scored_sentences": 0,
            **values,
        },
    )


def ablate(
    corpus: Corpus,
    output: str | Path,
    preset: str = "tiny",
    recipe: Recipe | None = None,
    *,
    rows: Sequence[str] | None = None,
    seeds: int = 3,
    strategy: tf.distribute.Strategy | None = None,
) -> str:
    """Trains and evaluates rows of Table 3, and writes the table.

    Called again with the same arguments after it was interrupted, it resumes.
    More rows and more seeds may be added later. Every run trains its own
    tokenizer, which is the same in all, since its training is deterministic.

    A row whose training fails does not stop the others, unless it is base.

    Args:
        corpus: The data, with the splits `train` and `valid`; the table has
            another part for `test`, if there is one.
        output: Folder of the runs and of the table.
        preset: What takes the place of base; see `scaled_rows`.
        recipe: How to train; `seed` is ignored. Default: `ablation_recipe`.
        rows: Names of rows. Default: all of them. Base is always one.
        seeds: Runs per row, with the seeds 1 to `seeds`.
        strategy: From `open_strategy`. Default: one device.

    Returns:
        The table in Markdown, of all finished runs in the folder.

    Raises:
        InputError: If the input is invalid, the folder has an ablation with
            other settings or data, or the training of a row failed; in the
            last case the table of the others is written.
    """
    recipe = recipe or ablation_recipe(preset)
    every_row = scaled_rows(preset, recipe)
    chosen = _choose(every_row, rows)
    if seeds < 1:
        raise InputError(f"seeds must be at least 1. Received: seeds={seeds}")
    references = _read_references(corpus)
    output = Path(output)
    settings = _settings(corpus, preset, recipe, list(references))
    with locked(output):
        _check_settings(output / "ablation.json", settings)
        job = _Job(corpus, output, preset, recipe, strategy, references)
        progress = _Progress(job, chosen, seeds)
        failed = {}
        for seed in range(1, seeds + 1):
            before = progress.left
            for row in chosen:
                try:
                    progress.run(row, seed)
                except (InputError, tf.errors.ResourceExhaustedError) as error:
                    if row.name == "base":
                        raise
                    failed[f"{row.name}, seed {seed}"] = str(error)
                    print(f"failed: {row.name}, seed {seed}: {error}")
            # After every seed, so that an interrupted ablation has a table.
            if seed == seeds or progress.left < before:
                table = write_report(
                    output, settings, every_row, references, failed
                )
    if failed:
        print(table)
        names = "; ".join(failed)
        raise InputError(
            "The training of some rows failed; the reasons are in "
            f"{output / 'ablation.md'}. Received: {names}. The same command "
            "tries them again."
        )
    return table


def _choose(rows: list[Row], names: Sequence[str] | None) -> list[Row]:
    if names is None:
        left_out = set(_names()) - {row.name for row in rows}
        for name in sorted(left_out):
            print(f"{name} is left out: at this size it equals another row")
        return rows
    known = [row.name for row in rows]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(
            f"Rows at this size are {', '.join(known)}. Received: "
            f"{', '.join(unknown)}"
        )
    return [row for row in rows if row.name in {"base", *names}]


def _read_references(corpus: Corpus) -> dict[str, list[str]]:
    """Returns the targets of the splits to evaluate on."""
    if corpus.task.name != TranslationTask.name:
        received = f"a corpus for {corpus.task.name}"
        raise InputError(f"Table 3 is of translation. Received: {received}")
    if corpus.prepared is not None:
        raise InputError("Rows are trained on texts. Received: prepared ids")
    if "valid" not in corpus.splits:
        raise InputError(
            "Rows are compared on the split valid. Received: "
            f"{corpus.name} with {', '.join(corpus.splits)}"
        )
    return {
        split: [target for _, target in corpus.pairs(split)]
        for split in SPLITS
        if split in corpus.splits
    }


def _settings(
    corpus: Corpus, preset: str, recipe: Recipe, splits: list[str]
) -> dict[str, Any]:
    """Returns what all runs have in common, as plain values."""
    values = dataclasses.asdict(recipe)
    del values["seed"]
    return {
        "preset": preset,
        "source": corpus.source,
        "target": corpus.target,
        **values,
        "checksums": {
            split: corpus.digest(split)
            for split in ("train", *splits)
            if split in corpus.splits
        },
    }


def _check_settings(path: Path, settings: dict[str, Any]) -> None:
    """Refuses other settings than those of an earlier call, or records them."""
    if not path.exists():
        write_json(path, {"settings": settings, "rows": [], "failed": {}})
        return
    try:
        recorded = dict(json.loads(path.read_text("utf-8"))["settings"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} must be what an ablation wrote. Received: {error!r}. "
            "Choose another output."
        ) from error
    differences = [
        f"{name}={settings.get(name)!r} instead of {recorded.get(name)!r}"
        for name in {**settings, **recorded}
        if settings.get(name) != recorded.get(name)
    ]
    if differences:
        raise InputError(
            f"{path.parent} has an ablation with other values. Choose another "
            f"output, or use the same. Received: {'; '.join(differences)}"
        )


@dataclasses.dataclass(frozen=True)
class _Job:
    """What the runs have in common."""

    corpus: Corpus
    output: Path
    preset: str
    recipe: Recipe
    strategy: tf.distribute.Strategy | None
    references: dict[str, list[str]]

    def missing(self, row: Row, seed: int) -> list[str]:
        """Returns the splits that a run has not been evaluated on."""
        path = average_path(self.output, row.name, seed)
        return [
            split
            for split, targets in self.references.items()
            if read_outputs(path, split, len(targets)) is None
        ]

    def train(self, row: Row, seed: int) -> TrainingRun:
        """Returns the mean of the last checkpoints of a run."""
        path = average_path(self.output, row.name, seed)
        if (path / "config.json").exists():
            return TrainingRun.open(path)
        run = trainer.train(
            self.corpus,
            self.output / row.name / f"seed-{seed}",
            self.preset,
            dataclasses.replace(self.recipe, seed=seed, **row.recipe),
            architecture=row.architecture,
            strategy=self.strategy,
        )
        last = min(self.recipe.max_to_keep, len(run.checkpoints()))
        return averaging.average(run, path, last)

    def evaluate(self, run: TrainingRun, split: str) -> None:
        """Records the results of a run with the search of the paper."""
        checkpoint = run.find_checkpoint()
        translator = Translator(
            run.load_model(checkpoint),
            run.tokenizer,
            run.task.search,
            task=run.task,
        )
        results, hypotheses = evaluation.evaluate(
            translator,
            self.corpus,
            split,
            self.corpus.target,
            decoding_workers(),
            ["bleu"],
        )
        evaluation.record(run, checkpoint, run.step, results, hypotheses)
        print(evaluation.describe(results))


class _Progress:
    """Finishes runs, and says how long that takes.

    Attributes:
        left: Number of runs that have not been tried and are not finished.
    """

    def __init__(self, job: _Job, rows: list[Row], seeds: int) -> None:
        self._job = job
        runs = [(row, seed) for seed in range(1, seeds + 1) for row in rows]
        self.left = sum(bool(job.missing(*run)) for run in runs)
        self._total = len(runs)
        self._seconds: list[float] = []
        print(f"{self._total - self.left} of {self._total} runs are finished")

    def run(self, row: Row, seed: int) -> None:
        """Trains and evaluates a row with a seed, unless that was done."""
        splits = self._job.missing(row, seed)
        if not splits:
            return
        print(f"\n== {row.name}, seed {seed}")
        start = time.monotonic()
        self.left -= 1
        # Otherwise the memory of finished models is kept.
        keras.backend.clear_session()
        run = self._job.train(row, seed)
        for split in splits:
            self._job.evaluate(run, split)
        self._seconds.append(time.monotonic() - start)
        mean = sum(self._seconds) / len(self._seconds)
        print(
            f"{row.name}, seed {seed}: {self._seconds[-1] / 60:.1f} min; "
            f"{self.left} of {self._total} runs are left, about "
            f"{self.left * mean / 60:.0f} min"
        )
