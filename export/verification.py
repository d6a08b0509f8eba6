"""Compares a model that was written with the translator that it is from."""

from collections.abc import Callable, Sequence

import numpy as np

from keras_transformer.export.dtypes import TOLERANCES
from keras_transformer.inference.records import Score, Translation
from keras_transformer.inference.translator import Translator
from keras_transformer.support.errors import InputError

PROBES = (
    "I am a student.",
    "",
    "Where is the station, and when does the next train leave?",
)


def check_scores(
    score: Callable[[list[str], list[str]], list[Score]],
    translator: Translator,
    format: str,
    dtype: str,
) -> None:
    """Raises RuntimeError unless a model gives the translator's probabilities.

    `score` is what it has as `Translator.score`. Every probe is scored as the
    translation of every probe: however unlikely it is, it must be as likely as
    before.
    """
    tolerances = TOLERANCES[format]
    computed_in = translator.model.compute_dtype
    tolerance = max(tolerances[dtype], tolerances[computed_in])
    texts = [_shortened(probe, translator) for probe in PROBES]
    texts = [text for text in texts if text]
    sides = [source for source in texts for _ in texts], texts * len(texts)
    scores = translator.score(*sides), score(*sides)
    for source, target, ours, theirs in zip(*sides, *scores, strict=True):
        difference = abs(theirs.log_prob - ours.log_prob) / ours.num_tokens
        if not difference <= tolerance:
            raise RuntimeError(
                "The exported model must give the probabilities of the model, "
                f"with {target!r} as the translation of {source!r}. Expected: "
                f"{ours}. Received: {theirs}"
            )


def _shortened(text: str, translator: Translator) -> str:
    """Returns a text that can be scored: it is not cut then."""
    sides = translator.tokenizer.source, translator.tokenizer.target
    while any(len(x.encode([text])[0]) >= translator.max_length for x in sides):
        text = text[: len(text) // 2]
    return text


def check_translations(
    written: Sequence[Translation], translator: Translator, texts: Sequence[str]
) -> None:
    """Raises RuntimeError unless texts are translated as the translator does.

    A score of the translator that is not finite raises InputError.
    """
    for text, theirs in zip(texts, written, strict=True):
        # Alone, as in the new process: in 16 bits, scores depend on the batch.
        ours = translator.translate(text)
        if not np.isfinite(ours.scores[0]):
            raise InputError(
                "The score of a translation must be finite. Received: "
                f"score={ours.scores[0]} for {text!r}. Training may have "
                "diverged: export an earlier checkpoint."
            )
        # Scores that the search did not fill are -inf in both.
        same = theirs.texts == ours.texts and np.allclose(
            theirs.scores, ours.scores, rtol=1e-4, atol=1e-4
        )
        if not same:
            raise RuntimeError(
                f"The exported model must translate {text!r} as the model "
                f"does. Expected: {ours}. Received: {theirs}"
            )
