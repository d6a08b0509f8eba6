"""Measures a model on a split: BLEU, chrF and perplexity."""

import json
import time
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.export import Translator
from keras_transformer.metrics import TokenNLL
from keras_transformer.train import pipeline
from keras_transformer.train.bleu import corpus_scores
from keras_transformer.train.run import Run, write_json
from keras_transformer.train.sources import Corpus

_BATCH_TOKENS = 8_192


def evaluate(
    translator: Translator,
    corpus: Corpus,
    split: str,
    target: str | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """Translates a split and compares with its references.

    Args:
        translator: The model with its search.
        corpus: Where the split is.
        split: Name of the split.
        target: Language code of the references, for the tokenised BLEU.

    Returns:
        The results (plain values), and the translations in the order of the
        split.

    Raises:
        InputError: If the split does not exist or cannot be read.
    """
    corpus.check(split)
    pairs = corpus.pairs(split)
    rows = list(pairs.as_numpy_iterator())
    sources = [source.decode() for source, _ in rows]
    references = [reference.decode() for _, reference in rows]
    start = time.monotonic()
    translations = translator.translate(sources)
    seconds = time.monotonic() - start
    hypotheses = [translation.texts[0] for translation in translations]
    scores = corpus_scores(hypotheses, references, target=target or "en")
    nll = float(_nll(translator, pairs))
    results = {
        "split": split,
        "sentences": len(rows),
        "truncated": sum(t.truncated for t in translations),
        **scores,
        "nll": nll,
        "perplexity": float(keras.ops.exp(nll)),
        "beam_size": translator.search.beam_size,
        "alpha": translator.search.alpha,
        "seconds": round(seconds, 2),
    }
    return results, hypotheses


def describe(results: dict[str, Any]) -> str:
    """Returns results of `evaluate` as text, a measure a line."""
    lines = [
        f"{results['split']}: {results['sentences']:,} sentences, beam "
        f"{results['beam_size']}, alpha {results['alpha']}, "
        f"{results['seconds']} s",
        f"BLEU            {results['bleu']:6.2f}  {results['bleu_signature']}",
        f"chrF            {results['chrf']:6.2f}  {results['chrf_signature']}",
        f"tokenised BLEU  {results['tokenized_bleu']:6.2f}  as in the paper",
        f"perplexity      {results['perplexity']:6.2f}  a token",
    ]
    if results["truncated"]:
        lines.append(f"truncated       {results['truncated']:6,}  sentences")
    return "\n".join(lines)


def record(run: Run, results: dict[str, Any], hypotheses: list[str]) -> Path:
    """Adds results to the run's `results.json`, and writes the translations.

    `results.json` is a list, the newest last. The translations of a split
    are in `translations-SPLIT.txt`, those of the newest evaluation.
    """
    path = run.path / "results.json"
    past = json.loads(path.read_text("utf-8")) if path.exists() else []
    write_json(path, [*past, {"step": run.step, **results}])
    text = run.path / f"translations-{results['split']}.txt"
    partial = text.with_name(f".partial-{text.name}")
    partial.write_text("".join(f"{h}\n" for h in hypotheses), "utf-8")
    partial.replace(text)
    return path


def _nll(translator: Translator, pairs: tf.data.Dataset) -> Any:
    """Returns nats a target token, without label smoothing."""
    model = translator.model
    metric = TokenNLL(model.config.pad_id)
    logits = tf.function(model, reduce_retracing=True)
    for inputs, labels in pipeline.evaluation_batches(
        pairs,
        translator.tokenizer,
        batch_tokens=max(_BATCH_TOKENS, 2 * model.config.max_length),
        max_length=model.config.max_length,
    ):
        metric.update_state(labels, logits(inputs))
    return metric.result()
