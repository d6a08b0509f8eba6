"""The results of an ablation: figures over seeds, significance, and a table.

Paired bootstrap: Koehn (2004), "Statistical Significance Tests for Machine
Translation Evaluation", as implemented by sacreBLEU.
"""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from keras_transformer.inference.run import Run
from keras_transformer.presets import PRESETS
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write, write_json

if TYPE_CHECKING:
    from keras_transformer.train.ablation import Row

SPLITS = ("valid", "test")
_BASE = "base"
_NOTES = """\
PPL is per token, BLEU is sacreBLEU's: means over the seeds, ± the standard
deviation over the seeds, which is the chance of training. The difference is
that to base, over the seeds that both have. p is the chance of the sentences:
sacreBLEU's paired bootstrap of a row and base with the same seed, the median
over the seeds, and 1 for equal translations. It is one-sided: of two equally
good systems, p is below 0.05 in one of ten comparisons. A difference counts
if p is small and the difference is larger than both spreads. The paper's
figures are of newstest2013."""


class Outputs(NamedTuple):
    """What a run produced for a split."""

    bleu: float
    perplexity: float | None
    hypotheses: list[str]
    parameters: int
    tokenizer: str  # SHA-256


def average_path(folder: Path, row: str, seed: int) -> Path:
    """Returns the run that is evaluated: the mean of the last checkpoints."""
    return folder / row / f"seed-{seed}-average"


def read_outputs(path: Path, split: str, sentences: int) -> Outputs | None:
    """Returns what `evaluate` recorded in a run.

    Args:
        path: The run.
        split: Name of the split.
        sentences: Number of sentences in it.

    Returns:
        The newest evaluation; None if there is none, or it is not of all
        sentences with the default search of the task.

    Raises:
        InputError: If the run is damaged.
    """
    if not (path / "config.json").exists():
        return None
    run = Run.open(path)
    found = run.metadata(run.find_checkpoint())["results"].get(split)
    file = path / f"{run.task.output}-{split}.txt"
    if found is None or "bleu" not in found or not file.exists():
        return None
    search = dataclasses.asdict(run.task.search)
    hypotheses = file.read_text("utf-8").splitlines()
    if {k: found[k] for k in search} != search or len(hypotheses) != sentences:
        return None
    return Outputs(
        found["bleu"],
        found["perplexity"],
        hypotheses,
        run.config.num_parameters,
        run.tokenizer.digest,
    )


def write_report(
    folder: Path,
    settings: dict[str, Any],
    rows: Sequence["Row"],
    references: Mapping[str, list[str]],
    failed: Mapping[str, str],
) -> str:
    """Writes `ablation.json` and `ablation.md` of what is finished.

    Args:
        folder: Folder of the ablation.
        settings: What its runs have in common.
        rows: The rows to look for, base first.
        references: The targets of each split.
        failed: Error messages of runs that failed, by run.

    Returns:
        The content of `ablation.md`.

    Raises:
        InputError: If a run is damaged, or runs have different tokenizers.
    """
    found = {}
    for row in rows:
        outputs = _read_row(folder / row.name, references)
        if outputs:
            found[row.name] = outputs
    _check_tokenizers(found)
    language = settings["target"] or "en"
    results = {
        split: summarize(
            {name: outputs[split] for name, outputs in found.items()},
            targets,
            language,
        )
        for split, targets in references.items()
    }
    described = [
        {
            **dataclasses.asdict(row),
            "paper_perplexity": PRESETS[row.name].paper_perplexity,
            "paper_bleu": PRESETS[row.name].paper_bleu,
            **{split: of[row.name] for split, of in results.items()},
        }
        for row in rows
        if row.name in found
    ]
    write_json(
        folder / "ablation.json",
        {"settings": settings, "rows": described, "failed": dict(failed)},
    )
    text = markdown(settings, described, references, failed)
    with atomic_write(folder / "ablation.md") as partial:
        partial.write_text(text, "utf-8")
    return text


def _read_row(
    folder: Path, references: Mapping[str, list[str]]
) -> dict[str, dict[int, Outputs]]:
    """Returns the outputs by split and seed of the seeds that have all."""
    found: dict[str, dict[int, Outputs]] = {}
    for path in sorted(folder.glob("seed-*-average")):
        seed = path.name.removeprefix("seed-").removesuffix("-average")
        outputs = {
            split: read_outputs(path, split, len(targets))
            for split, targets in references.items()
        }
        if seed.isdecimal() and None not in outputs.values():
            for split, of_split in outputs.items():
                found.setdefault(split, {})[int(seed)] = of_split
    return found


def _check_tokenizers(
    found: Mapping[str, Mapping[str, Mapping[int, Outputs]]],
) -> None:
    runs = {
        f"{row}/seed-{seed}": outputs.tokenizer
        for row, splits in found.items()
        for seed, outputs in splits["valid"].items()
    }
    if len(set(runs.values())) > 1:
        digests = ", ".join(f"{run} {runs[run][:12]}" for run in runs)
        raise InputError(
            "The runs of an ablation must have the same tokenizer, or their "
            f"perplexities cannot be compared. Received: {digests}"
        )


def summarize(
    outputs: Mapping[str, Mapping[int, Outputs]],
    references: list[str],
    language: str,
) -> dict[str, dict[str, Any]]:
    """Returns the figures of each row for a split, as plain values.

    Args:
        outputs: What the runs produced, by row and seed.
        references: The targets of the split.
        language: Code of their language.

    Returns:
        By row: `parameters`; `bleu` and `perplexity` by seed, each with its
        `mean` and `spread`, the sample standard deviation; and but for base
        the mean `difference` in BLEU to base, `p_values` by seed, and their
        median `p`. A value is None if there are too few seeds for it.
    """
    p_values = paired_bootstrap(outputs, references, language)
    base = outputs.get(_BASE, {})
    summary = {}
    for row, seeds in outputs.items():
        perplexities = {s: of.perplexity for s, of in seeds.items()}
        summary[row] = {
            "parameters": next(iter(seeds.values())).parameters,
            "bleu": _over_seeds({s: of.bleu for s, of in seeds.items()}),
            "perplexity": _over_seeds(perplexities),
        }
        if row == _BASE:
            continue
        shared = seeds.keys() & base.keys()
        differences = [seeds[s].bleu - base[s].bleu for s in shared]
        found = {s: p_values[s][row] for s in sorted(shared)}
        summary[row] |= {
            "difference": statistics.mean(differences) if shared else None,
            "p_values": found,
            "p": statistics.median(found.values()) if shared else None,
        }
    return summary


def _over_seeds(values: dict[int, float | None]) -> dict[str, Any]:
    known = [value for value in values.values() if value is not None]
    return {
        "seeds": values,
        "mean": statistics.mean(known) if known else None,
        "spread": statistics.stdev(known) if len(known) > 1 else None,
    }


def paired_bootstrap(
    outputs: Mapping[str, Mapping[int, Outputs]],
    references: list[str],
    language: str,
) -> dict[int, dict[str, float]]:
    """Compares each row with base, seed by seed, by sacreBLEU's test.

    The seeds are not pooled: translations of one sentence by several runs are
    not independent, which the bootstrap would take them to be. sacreBLEU
    fixes the random numbers.

    Args:
        outputs: What the runs produced, by row and seed.
        references: The targets of the split.
        language: Code of their language.

    Returns:
        p by seed and row.
    """
    p_values = {}
    for seed, base in outputs.get(_BASE, {}).items():
        systems = {
            row: seeds[seed].hypotheses
            for row, seeds in outputs.items()
            if row != _BASE and seed in seeds
        }
        _, scores = PairedTest(
            [(_BASE, base.hypotheses), *systems.items()],
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


def markdown(
    settings: dict[str, Any],
    rows: Sequence[dict[str, Any]],
    references: Mapping[str, list[str]],
    failed: Mapping[str, str],
) -> str:
    """Returns the content of `ablation.md`.

    Args:
        settings: What the runs have in common.
        rows: The rows as `ablation.json` has them.
        references: The targets of each split.
        failed: Error messages of runs that failed, by run.
    """
    lines = [
        f"# Table 3 with {settings['preset']} in the place of base",
        "",
        f"{settings['steps']:,} steps of {settings['batch_tokens']:,} tokens, "
        f"a checkpoint every {settings['steps_per_epoch']:,} steps, the last "
        f"{settings['max_to_keep']} averaged, {settings['dtype']}.",
    ]
    for split, targets in references.items():
        lines += [
            "",
            f"## {split}, {len(targets):,} sentences",
            "",
            "| row | in the paper | here | seeds | parameters | PPL | BLEU | "
            "difference | p | paper: PPL | BLEU | difference |",
            "|---" * 12 + "|",
            *(_table_row(row, row[split]) for row in rows),
        ]
    lines += ["", _NOTES]
    lines += [f"\nFailed: {run}: {why}" for run, why in failed.items()]
    return "\n".join(lines) + "\n"


def _table_row(row: dict[str, Any], figures: dict[str, Any]) -> str:
    in_paper = here = difference = p = paper_difference = ""
    if row["field"] is not None:
        in_paper = f"`{row['field']}` {row['paper'][0]} → {row['paper'][1]}"
        here = f"{row['here'][0]} → {row['here'][1]}"
        change = row["paper_bleu"] - PRESETS[_BASE].paper_bleu
        paper_difference = f"{change:+.1f}"
    if figures.get("difference") is not None:
        difference = f"{figures['difference']:+.2f}"
        p = f"{figures['p']:.3f}"
    cells = (
        row["name"],
        in_paper,
        here,
        len(figures["bleu"]["seeds"]),
        f"{figures['parameters']:,}",
        _with_spread(figures["perplexity"]),
        _with_spread(figures["bleu"]),
        difference,
        p,
        f"{row['paper_perplexity']:.2f}",
        f"{row['paper_bleu']:.1f}",
        paper_difference,
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def _with_spread(figure: dict[str, Any]) -> str:
    if figure["mean"] is None:
        return ""
    if figure["spread"] is None:
        return f"{figure['mean']:.2f}"
    return f"{figure['mean']:.2f} ± {figure['spread']:.2f}"
