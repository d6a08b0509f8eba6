"""What all translators share: records, checks, batches; no TensorFlow."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import POSITIVE_INTEGER, check_values
from keras_transformer.text import read_texts

_MAX_BATCH_SIZE = 128  # each text needs K rows of V log-probabilities


class Translation(NamedTuple):
    """The translations of one source text.

    In graphs, those of a batch: tensors of shape `[B, n]` for the lists, of
    strings and float32, and boolean `[B]` for the others.
    """

    texts: list[str]  # best first
    scores: list[float]  # log P / length penalty of each text
    source_truncated: bool  # source or prefix was longer than the model reads
    at_length_limit: bool  # the best text has as many tokens as it may have
    repaired: bool = False  # the best text is a tree that had to be repaired


class Score(NamedTuple):
    """How likely a given translation is."""

    score: float  # log P / length penalty, by which the search ranks
    log_prob: float  # log P, a natural logarithm
    perplexity: float  # exp(-log P / number of tokens), the end token included


def read_sources(
    texts: Any, prefixes: Any = None
) -> tuple[list[str], list[str], bool]:
    """Returns texts, a prefix for each, and whether a single one was given.

    Arguments and errors are those of `Translator.translate`.
    """
    texts, is_single = read_texts(texts)
    if prefixes is None:
        prefixes = [""] * len(texts)
    prefixes, _ = read_texts(prefixes, "prefixes")
    if len(prefixes) != len(texts):
        raise InputError(
            "Each text must have one prefix. Received: "
            f"{len(texts)} texts, {len(prefixes)} prefixes"
        )
    return texts, prefixes, is_single


def read_pairs(sources: Any, targets: Any) -> tuple[list[str], list[str], bool]:
    """Returns sources, targets, and whether a single pair was given.

    Arguments and errors are those of `Translator.score`.
    """
    sources, is_single = read_texts(sources, "sources")
    targets, is_single_target = read_texts(targets, "targets")
    if len(sources) != len(targets) or is_single != is_single_target:
        raise InputError(
            "Each source must have one target: pass two texts, or two "
            f"lists of the same length. Received: {len(sources)} sources, "
            f"{len(targets)} targets"
        )
    return sources, targets, is_single


class BaseTranslator:
    """What a translator has beside its `translate` and its `metadata`."""

    max_length: int | None  # tokens that the model reads; None if unknown
    checkpoints: Sequence[tuple[Any, Any]] = ()  # runs and files; no export has
    version: int = 1  # of an exported model

    def __call__(self, texts: Any) -> str | list[str]:
        """Returns the best translation of one text, or a list of several."""
        translations = self.translate(texts)
        if isinstance(translations, Translation):
            return translations.texts[0]
        return [translation.texts[0] for translation in translations]

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """Source and target language, as far as they are known."""
        return self._run.get("source"), self._run.get("target")

    @property
    def example(self) -> str | None:
        """A source of the corpus that the model was validated on, if known."""
        return self._run.get("example")

    @property
    def _run(self) -> Mapping[str, Any]:
        """What is known of the (first) run."""
        return next(iter(self.metadata.get("runs", ())), {})


def check_lengths(
    sources: Sequence[int], targets: Sequence[int], max_length: int
) -> None:
    """Raises InputError if a text of a pair is too long to be scored.

    Args:
        sources: Number of tokens of each source, without the end token.
        targets: Likewise.
        max_length: The longest sequence that the model takes.
    """
    for index, pair in enumerate(zip(sources, targets, strict=True)):
        for side, length in zip(("source", "target"), pair, strict=True):
            if length >= max_length:
                raise InputError(
                    f"A text to score must have at most {max_length - 1} "
                    f"tokens. Received: a {side} of {length} tokens at index "
                    f"{index}"
                )


def batches_by_length(
    lengths: Sequence[int], max_length: int, batch_tokens: int, workers: int = 1
) -> list[list[int]]:
    """Groups the indices of texts of similar length, longest first.

    Args:
        lengths: Number of tokens of each text, without the end token.
        max_length: The longest sequence that the model takes; others are cut.
        batch_tokens: Tokens of a batch, end tokens and padding included.
        workers: How many batches there should be at least.

    Returns:
        The indices of each batch, at most 128.
    """
    check_values(POSITIVE_INTEGER, batch_tokens=batch_tokens)
    lengths = [min(length + 1, max_length) for length in lengths]
    largest = min(_MAX_BATCH_SIZE, math.ceil(len(lengths) / workers))
    rows = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    batches, start = [], 0
    while start < len(rows):
        size = min(batch_tokens // lengths[rows[start]], largest)
        batches.append(rows[start : start + max(size, 1)])
        start += len(batches[-1])
    return batches
