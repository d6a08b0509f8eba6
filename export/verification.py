"""Compares a model that was written with the translator that it is from."""

from collections.abc import Callable, Sequence

from keras_transformer.export.dtypes import TOLERANCES
from keras_transformer.inference.records import Score
from keras_transformer.inference.translator import Translator

PROBES = (
    "I am a student.",
    "Where is the station, and when does the next train leave?",
)

# As `Translator.score`: sources, targets.
ScoreTexts = Callable[[Sequence[str], Sequence[str]], list[Score]]


def check_scores(
    score: ScoreTexts, translator: Translator, format: str, dtype: str
) -> None:
    """Raises RuntimeError unless a model gives the translator's probabilities.

    Every probe is scored as the translation of every probe: however unlikely
    it is, it must be as likely as before.
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
                f"The exported model must give {target!r} the probability of "
                f"the model, as the translation of {source!r}. Expected: "
                f"log_prob={ours.log_prob:.7g}. Received: "
                f"{theirs.log_prob:.7g}. The usual reason is a layer that was "
                "replaced or quantized, or has LoRA: export a SavedModel."
            )


def _shortened(text: str, translator: Translator) -> str:
    """Returns a text that can be scored: it is not cut then."""
    sides = translator.tokenizer.source, translator.tokenizer.target
    while any(len(x.encode([text])[0]) >= translator.max_length for x in sides):
        text = text[: len(text) // 2]
    return text
