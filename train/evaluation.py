"""Evaluates a model on a split: scores of its task, and perplexity."""

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from keras_transformer.inference.translator import Translator
from keras_transformer.runs.run_folder import Run
from keras_transformer.support.files import atomic_write, locked, write_json
from keras_transformer.tasks import find_task
from keras_transformer.train.data.corpus import Corpus


def evaluate(
    translator: Translator,
    corpus: Corpus,
    split: str,
    target: str | None = None,
    workers: int | None = None,
    metrics: Sequence[str] | None = None,
    progress: Callable[[int], Any] | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """Decodes a split and compares the outputs with its references.

    The default `metrics` are those of the task. Some depend on the language
    `target`. Several corpora are also scored one by one. Returns the results
    as plain values for JSON, and the outputs in the order of the split.
    """
    task = corpus.task
    translator = translator.for_corpus(task)
    metrics = task.default_metrics if metrics is None else metrics
    task.check_metrics(target, metrics)
    parts = list(corpus.pairs_of_parts(split))
    sources = [source for _, pairs in parts for source, _ in pairs]
    references = [reference for _, pairs in parts for _, reference in pairs]
    start = time.monotonic()
    outputs = translator.translate(sources, workers=workers, progress=progress)
    seconds = time.monotonic() - start
    hypotheses = [output.text for output in outputs]
    scores = task.scores(hypotheses, references, target, metrics)
    measured = translator.score_corpus(
        sources, references, workers=workers, progress=progress
    )
    # None: an empty side, or a side longer than the model accepts.
    measured = [score for score in measured if score is not None]
    nll = None
    if measured:
        tokens = sum(score.num_tokens for score in measured)
        nll = -sum(score.log_prob for score in measured) / tokens  # per token
    scored_parts = []
    remaining = iter(hypotheses)
    for part, pairs in parts if len(parts) > 1 else ():
        part_scores = task.scores(
            list(itertools.islice(remaining, len(pairs))),
            [reference for _, reference in pairs],
            part.target or target,
            metrics,
        )
        entry = {"data": str(part), "sentences": len(pairs)}
        scored_parts.append({**entry, **part_scores})
    truncated = [x.source_truncated or x.at_length_limit for x in outputs]
    results = {
        "task": task.name,
        "data": corpus.name,
        "split": split,
        "sentences": len(sources),
        "truncated": sum(truncated),
        "repaired": sum(x.repaired for x in outputs),
        **scores,
        "parts": scored_parts,
        "nll": nll,
        "perplexity": None if nll is None else math.exp(nll),
        "perplexity_sentences": len(measured),
        **(dataclasses.asdict(translator.search) if translator.search else {}),
        "dtype": translator.dtype,
        "seconds": round(seconds, 2),
    }
    return results, hypotheses


def describe(results: dict[str, Any]) -> str:
    """Returns results of `evaluate` as text, one measure per line."""
    search = "the search of the export"
    if "seed" in results:
        search = f"sampling with seed {results['seed']}"
    if "beam_size" in results:
        search = f"beam {results['beam_size']}, alpha {results['alpha']}"
        if results["length_penalty"] != "wu":
            search += f", length penalty {results['length_penalty']}"
    size = f"{results['sentences']:,} sentences"
    lines = [f"{results['split']}: {size}, {search}, {results['seconds']} s"]

    def add(name: str, value: str, note: str) -> None:
        lines.append(f"{name:<15} {value:>6}  {note}".rstrip())

    for metric, name in find_task(results["task"]).metrics.items():
        if metric in results:
            signature = results.get(f"{metric}_signature", "")
            add(name, f"{results[metric]:.2f}", signature)
            for part in results.get("parts", []):
                add("", f"{part[metric]:.2f}", part["data"])
    scored = results["perplexity_sentences"]
    if scored:
        note = f"per token of {scored:,} sentences"
        add("perplexity", f"{results['perplexity']:.2f}", note)
    else:
        add("perplexity", "-", "all pairs are empty or too long")
    for name in ("truncated", "repaired"):
        if results[name]:
            share = results[name] / results["sentences"]
            add(name, f"{results[name]:,}", f"of the sentences, {share:.1%}")
    return "\n".join(lines)


def record(
    run: Run,
    checkpoint: Path,
    step: int,
    results: dict[str, Any],
    hypotheses: list[str],
) -> Path:
    """Appends results to the run's `results.json`; writes the outputs.

    `translations-SPLIT.txt` or `trees-SPLIT.txt` contains one per line. `step`
    is the step of the checkpoint, which training may have replaced since.
    """
    path = run.path / "results.json"
    measured = {"step": step, "checkpoint": checkpoint.name, **results}
    text = run.path / f"{run.task.output}-{results['split']}.txt"
    lines = (" ".join(hypothesis.splitlines()) for hypothesis in hypotheses)
    with locked(run.path, wait=True, name="results.lock"):
        write_json(path, [*run.results(), measured])
        with atomic_write(text) as partial:
            partial.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path
