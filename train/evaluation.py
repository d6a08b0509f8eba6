"""Evaluates a model on a split: BLEU, chrF and perplexity."""

import dataclasses
import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_transformer.files import atomic_write, write_json
from keras_transformer.metrics import TokenNLL
from keras_transformer.train.bleu import DEFAULT_METRICS, corpus_scores
from keras_transformer.train.data import pipeline
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.run import TrainingRun
from keras_transformer.translator import Translator

_BATCH_TOKENS = 8_192
_NAMES = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "ter": "TER",
    "tokenized_bleu": "tokenized BLEU",
}


def evaluate(
    translator: Translator,
    corpus: Corpus,
    split: str,
    target: str | None = None,
    workers: int = 1,
    metrics: Sequence[str] = DEFAULT_METRICS,
) -> tuple[dict[str, Any], list[str]]:
    """Translates a split and compares the translations with its references.

    Args:
        translator: The model with its search.
        corpus: The corpus.
        split: Name of the split.
        target: Language code of the references, as in `corpus_scores`.
        workers: As in `Translator.translate`.
        metrics: As in `corpus_scores`.

    Returns:
        The results as plain values, and the translations in the order of the
        split.

    Raises:
        InputError: If the split does not exist or cannot be read, or a metric
            is unknown.
    """
    corpus.check(split)
    pairs = corpus.pairs(split)
    rows = list(pairs.as_numpy_iterator())
    sources = [source.decode() for source, _ in rows]
    references = [reference.decode() for _, reference in rows]
    target = target or "en"
    corpus_scores([""], [""], target, metrics)  # fails early if it must
    start = time.monotonic()
    translations = translator.translate(sources, workers=workers)
    seconds = time.monotonic() - start
    hypotheses = [translation.texts[0] for translation in translations]
    scores = corpus_scores(hypotheses, references, target, metrics)
    nll, scored = _nll(translator, pairs)
    results = {
        "data": corpus.name,
        "split": split,
        "sentences": len(rows),
        "truncated": sum(
            t.source_truncated or t.at_length_limit for t in translations
        ),
        **scores,
        "nll": nll,
        "perplexity": None if nll is None else math.exp(nll),
        "perplexity_sentences": scored,
        **dataclasses.asdict(translator.search),
        "dtype": translator.model.dtype_policy.name,
        "seconds": round(seconds, 2),
    }
    return results, hypotheses


def describe(results: dict[str, Any]) -> str:
    """Returns results of `evaluate` as text, one measure per line."""
    lines = [
        f"{results['split']}: {results['sentences']:,} sentences, beam "
        f"{results['beam_size']}, alpha {results['alpha']}, "
        f"{results['seconds']} s",
    ]
    for metric, name in _NAMES.items():
        if metric in results:
            about = results.get(f"{metric}_signature", "as in the paper")
            lines.append(f"{name:<15} {results[metric]:6.2f}  {about}")
    scored = results["perplexity_sentences"]
    if scored:
        lines.append(f"perplexity      {results['perplexity']:6.2f}  per token")
    if scored < results["sentences"]:
        lines.append(
            f"perplexity is that of {scored:,} sentences: the others are empty "
            "or longer than the model's max_length"
        )
    if results["truncated"]:
        lines.append(
            f"truncated       {results['truncated']:6,}  of the sentences"
        )
    return "\n".join(lines)


def record(
    run: TrainingRun,
    checkpoint: Path,
    step: int,
    results: dict[str, Any],
    hypotheses: list[str],
) -> Path:
    """Appends results to the run's `results.json`; writes the translations.

    `translations-SPLIT.txt` has the translations of the newest evaluation of
    a split.

    Args:
        run: The run.
        checkpoint: The checkpoint that was evaluated.
        step: Updates after which it was written. Training may have replaced
            it since.
        results: From `evaluate`.
        hypotheses: From `evaluate`.

    Returns:
        The path of `results.json`.
    """
    path = run.path / "results.json"
    about = {"step": step, "checkpoint": checkpoint.name}
    text = run.path / f"translations-{results['split']}.txt"
    lines = (" ".join(hypothesis.splitlines()) for hypothesis in hypotheses)
    with run.locked_results():
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
    translator: Translator, pairs: tf.data.Dataset
) -> tuple[float | None, int]:
    """Returns the negative log-likelihood, and of how many pairs it is.

    In nats per target token, without label smoothing. Pairs with an empty
    side or longer than the model's `max_length` are left out; the first
    value is None if no pair remains.
    """
    model = translator.model
    metric = TokenNLL(model.config.pad_id)
    logits = tf.function(model, reduce_retracing=True)
    scored = 0
    for inputs, labels in pipeline.evaluation_batches(
        pairs,
        translator.tokenizer,
        batch_tokens=max(_BATCH_TOKENS, 2 * model.config.max_length),
        max_length=model.config.max_length,
    ):
        metric.update_state(labels, logits(inputs))
        scored += len(labels)
    return (float(metric.result()) if scored else None), scored
