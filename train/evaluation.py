"""Evaluates a model on a split: the scores of its task, and perplexity."""

import dataclasses
import functools
import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_transformer.flops import training_flops
from keras_transformer.inference.pipeline import mean_log_probs
from keras_transformer.inference.run_folder import Run
from keras_transformer.inference.texts import BaseTranslator
from keras_transformer.inference.translator import Translator
from keras_transformer.metrics import TokenNLL
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write, write_json
from keras_transformer.support.locks import locked
from keras_transformer.tasks import find_task
from keras_transformer.train.data import batching
from keras_transformer.train.data.corpus import Corpus

_BATCH_TOKENS = 8_192


def evaluate(
    translator: BaseTranslator,
    corpus: Corpus,
    split: str,
    target: str | None = None,
    workers: int = 1,
    metrics: Sequence[str] | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """Decodes a split and compares the outputs with its references.

    Returns the results as plain values, and the outputs in the order of the
    split. `workers` batches are decoded at the same time.
    """
    task = corpus.task
    if translator.task.name != task.name:
        raise InputError(
            f"A model for {translator.task.name} must be evaluated on a corpus "
            f"for it. Received: {corpus.name}, which is for {task.name}"
        )
    measure_nll = _nll_of_scores
    if isinstance(translator, Translator):
        measure_nll = _nll
        # The sentences of a treebank have been split into words.
        translator = Translator(
            translator.models,
            translator.tokenizer,
            translator.search,
            task=task,
        )
    elif not hasattr(translator, "tokenizer"):  # a SavedModel
        measure_nll = _no_nll
        if not task.targets_are_text:
            raise InputError(
                "A SavedModel that parses splits sentences into words itself. "
                "Evaluate its run."
            )
    metrics = task.default_metrics if metrics is None else metrics
    task.check_metrics(target, metrics)
    pairs = list(corpus.pairs(split))
    sources, references = map(list, zip(*pairs, strict=True))
    start = time.monotonic()
    outputs = translator.translate(sources, workers=workers)
    seconds = time.monotonic() - start
    hypotheses = [output.texts[0] for output in outputs]
    scores = task.scores(hypotheses, references, target, metrics)
    nll, scored = measure_nll(translator, pairs)
    results = {
        "task": task.name,
        "data": corpus.name,
        "split": split,
        "sentences": len(pairs),
        "truncated": sum(
            output.source_truncated or output.at_length_limit
            for output in outputs
        ),
        "repaired": sum(output.repaired for output in outputs),
        **scores,
        "nll": nll,
        "perplexity": None if nll is None else math.exp(nll),
        "perplexity_sentences": scored,
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
        penalty = results.get("length_penalty", "wu")  # older ones lack it
        if penalty != "wu":
            search += f", length penalty {penalty}"
    lines = [
        f"{results['split']}: {results['sentences']:,} sentences, "
        f"{search}, {results['seconds']} s",
    ]

    def add(name: str, value: str, about: str) -> None:
        lines.append(f"{name:<15} {value:>6}  {about}".rstrip())

    for metric, name in find_task(results["task"]).metrics.items():
        if metric in results:
            about = results.get(f"{metric}_signature", "")
            add(name, f"{results[metric]:.2f}", about)
    scored = results["perplexity_sentences"]
    if scored:
        add("perplexity", f"{results['perplexity']:.2f}", "per token")
    else:
        add(
            "perplexity",
            "-",
            "no pair was scored; of a SavedModel, see its run",
        )
    if 0 < scored < results["sentences"]:
        lines.append(
            f"perplexity is that of {scored:,} sentences: the others are empty "
            "or longer than the model's max_length"
        )
    for name in ("truncated", "repaired"):
        if results[name]:
            share = results[name] / results["sentences"]
            add(name, f"{results[name]:,}", f"of the sentences, {share:.1%}")
    if "training_flops" in results:
        operations = f"{results['training_flops']:.1e}"
        add("training cost", operations, "floating-point operations, estimated")
    return "\n".join(lines)


def training_cost(run: Run, step: int) -> dict[str, float]:
    """Estimates the floating-point operations of training up to a step.

    They are those of the forward pass and of the gradients
    (`keras_transformer.flops`) for full batches of pairs that have the mean
    lengths of the training data, if they are known. Weights from another run
    count nothing.
    """
    known = run.statistics
    if "pairs" not in known:
        return {}
    source = known["source_tokens"] / known["pairs"]
    target = known["target_tokens"] / known["pairs"]
    pairs = step * run.recipe["batch_tokens"] / (source + target)
    per_pair = training_flops(run.config, source, target)
    return {"training_flops": pairs * per_pair}


def record(
    run: Run,
    checkpoint: Path,
    step: int,
    results: dict[str, Any],
    hypotheses: list[str],
) -> Path:
    """Appends results to the run's `results.json`; writes the outputs.

    `translations-SPLIT.txt`, or `trees-SPLIT.txt`, has those of the newest
    evaluation of a split, one per line. The step is given, since training may
    have replaced the checkpoint meanwhile. Returns the path of `results.json`.
    """
    path = run.path / "results.json"
    about = {"step": step, "checkpoint": checkpoint.name}
    text = run.path / f"{run.task.output}-{results['split']}.txt"
    lines = (" ".join(hypothesis.splitlines()) for hypothesis in hypotheses)
    with locked(run.path, wait=True, name="results.lock"):
        write_json(path, [*_read_results(path), {**about, **results}])
        with atomic_write(text) as partial:
            partial.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def _read_results(path: Path) -> list:
    if not path.exists():
        return []
    try:
        return list(json.loads(path.read_text("utf-8")))
    except ValueError as error:
        # A damaged file must not cost what has just been measured.
        damaged = path.with_suffix(".json.damaged")
        path.replace(damaged)
        print(
            f"Warning: {path} is not valid JSON ({error}). It was renamed to "
            f"{damaged.name}.",
            file=sys.stderr,
        )
        return []


def _nll(
    translator: Translator, pairs: Sequence[tuple[str, str]]
) -> tuple[float | None, int]:
    """Returns the negative log-likelihood, and of how many pairs it is.

    In nats per target token, without label smoothing. Pairs with an empty
    side or longer than the model's `max_length` are left out; the first
    value is None if no pair remains.
    """
    config, max_length = translator.model.config, translator.max_length
    metric = TokenNLL(config.pad_id)

    @functools.partial(tf.function, reduce_retracing=True)
    def log_probs(inputs: dict[str, tf.Tensor]) -> tf.Tensor:
        return mean_log_probs([model(inputs) for model in translator.models])

    scored = 0
    for inputs, labels in batching.evaluation_batches(
        pairs,
        translator.tokenizer,
        batch_tokens=max(_BATCH_TOKENS, 2 * max_length),
        max_length=max_length,
        task=translator.task,
    ):
        metric.update_state(labels, log_probs(inputs))
        scored += len(labels)
    return (float(metric.result()) if scored else None), scored


def _no_nll(*_: Any) -> tuple[None, int]:
    return None, 0  # which pairs are too long is unknown without tokenizer


def _nll_of_scores(
    translator: BaseTranslator, pairs: Sequence[tuple[str, str]]
) -> tuple[float | None, int]:
    """Returns what `_nll` does, from the scores of the pairs."""
    tokenizer = translator.tokenizer
    sources, targets = zip(*pairs, strict=True)
    sides = tokenizer.source.encode(sources), tokenizer.target.encode(targets)
    kept = [
        (pair, len(target) + 1)
        for pair, source, target in zip(pairs, *sides, strict=True)
        if source and target
        if max(len(source), len(target)) < translator.max_length
    ]
    if not kept:
        return None, 0
    pairs, counts = zip(*kept, strict=True)
    scores = translator.score(*zip(*pairs, strict=True))
    return -sum(score.log_prob for score in scores) / sum(counts), len(pairs)
