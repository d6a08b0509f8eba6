"""What translators return."""

from typing import NamedTuple

import numpy as np


class Translation(NamedTuple):
    """The translations of one source text."""

    texts: list[str]  # best first
    scores: list[float]  # log P / length penalty of each text
    source_truncated: bool  # source or prefix was longer than the model reads
    at_length_limit: bool  # the best text has as many tokens as it may have
    repaired: bool = False  # the best text is a tree that had to be repaired
    numbers_differ: bool = False  # digits of the best text and of the source

    @property
    def text(self) -> str:
        """The best text."""
        return self.texts[0]

    def __repr__(self) -> str:
        values = self._asdict().items()
        shown = [f"{x}={y!r}" for x, y in values if x != "repaired" or y]
        return f"Translation({', '.join(shown)})"


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

    There is one float32 array per layer. Row t of a decoder's array belongs to
    the prediction of the token that follows `target_tokens[t]`.
    """

    source: str  # the text
    output: str  # its translation
    source_tokens: list[str]  # S pieces, the end token last
    target_tokens: list[str]  # T pieces that the decoder reads, "<s>" first
    source_words: list[list[int]]  # positions of the pieces of each word
    target_words: list[list[int]]  # positions of the pieces of each word
    encoder: list[np.ndarray]  # [heads, S, S]
    decoder: list[np.ndarray]  # [heads, T, T]
    cross: list[np.ndarray]  # [heads, T, S]
