"""Arguments, batches and records of translators, without TensorFlow."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from keras_transformer.support.errors import InputError
from keras_transformer.text import read_texts


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
    perplexity: float  # exp(-log P / number of tokens)
    num_tokens: int  # of the translation, the end token included


class TranslatedDocument(NamedTuple):
    """The translation of a text of several sentences and lines."""

    text: str  # the whole translation
    translations: dict[str, Translation]  # of each sentence, in order


class EncodedTexts(NamedTuple):
    """Texts as a runtime takes them."""

    texts: list[str]
    lengths: Sequence[float]  # tokens without the end token, or an estimate
    ids: Any = None  # the tokens of each text, if the runtime has them


def check_lengths(
    sources: EncodedTexts, targets: EncodedTexts, max_length: int | None
) -> None:
    """Raises InputError if a text of a pair is too long to be scored."""
    longest = (max_length or math.inf) - 1
    lengths = zip(sources.lengths, targets.lengths, strict=True)
    for index, pair in enumerate(lengths):
        for side, length in zip(("source", "target"), pair, strict=True):
            if length > longest:
                raise InputError(
                    f"A text to score must have at most {longest} tokens. "
                    f"Received: a {side} of {length} tokens at index {index}"
                )


class TooLong(NamedTuple):
    """Why a pair has no score: a side is longer than the model reads."""

    side: str  # "source" or "target"


def batches_by_length(
    lengths: Sequence[float],
    max_length: int,
    batch_tokens: int,
    workers: int = 1,
    max_batch_size: int = 128,
) -> list[list[int]]:
    """Groups the indices of texts of similar length, longest first.

    Lengths are without the end token, which counts in `batch_tokens` like
    padding. Longer texts are cut at `max_length`. There are as many batches as
    workers, at least.
    """
    lengths = [min(length + 1, max_length) for length in lengths]
    largest = min(max_batch_size, math.ceil(len(lengths) / workers))
    rows = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    batches, start = [], 0
    while start < len(rows):
        size = min(int(batch_tokens // lengths[rows[start]]), largest)
        batches.append(rows[start : start + max(size, 1)])
        start += len(batches[-1])
    return batches


def translations_of_columns(columns: Iterable[Any]) -> list[Translation]:
    """Returns records of a batch's columns, of which the texts are UTF-8."""
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [
        # A model may spell bytes that are not UTF-8.
        Translation([text.decode("utf-8", "replace") for text in texts], *rest)
        for texts, *rest in rows
    ]


def read_sources(
    texts: Any, prefixes: Any
) -> tuple[list[str], list[str], bool]:
    """Returns texts, a prefix for each, and whether a single one was given."""
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
    """Returns sources, targets, and whether a single pair was given."""
    sources, is_single = read_texts(sources, "sources")
    targets, is_single_target = read_texts(targets, "targets")
    if len(sources) != len(targets) or is_single != is_single_target:
        raise InputError(
            "Each source must have one target: pass two texts, or two "
            f"lists of the same length. Received: {len(sources)} sources, "
            f"{len(targets)} targets"
        )
    return sources, targets, is_single
