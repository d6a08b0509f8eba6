"""Arguments and records of translators."""

from typing import Any, NamedTuple

import numpy as np

from keras_transformer.support.errors import InputError
from keras_transformer.text import read_texts


class Translation(NamedTuple):
    """The translations of one source text."""

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


class TranslationAttention(NamedTuple):
    """The attention of a model while it translates one text.

    There is one float32 array per layer, the first layer first. Row t of a
    decoder's array belongs to the prediction of the token that follows
    `target_tokens[t]`. S is the number of source pieces, T of target pieces,
    H of heads.
    """

    source: str  # the text
    output: str  # its translation
    source_tokens: list[str]  # S pieces, the end token last
    target_tokens: list[str]  # T pieces that the decoder reads, "<s>" first
    source_words: list[list[int]]  # positions of the pieces of each word
    target_words: list[list[int]]  # positions of the pieces of each word
    encoder: list[np.ndarray]  # [H, S, S]
    decoder: list[np.ndarray]  # [H, T, T]
    cross: list[np.ndarray]  # [H, T, S]


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


def read_one_text(text: Any) -> str:
    """Returns the only text that was given."""
    texts, is_single = read_texts(text, "text")
    if not is_single:
        raise InputError(
            f"This takes one text at a time. Received: {len(texts)} texts"
        )
    return texts[0]


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
