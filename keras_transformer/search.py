"""The settings of the search (section 6.1; Wu et al. 2016)."""

import dataclasses

from keras_transformer.fields import (
    NON_NEGATIVE_INTEGER,
    NON_NEGATIVE_NUMBER,
    POSITIVE_INTEGER,
    check_fields,
    described,
    document_fields,
)


@document_fields
@dataclasses.dataclass(frozen=True)
class BeamSearch:
    """Settings of the search.

    It finds the hypotheses of highest score log P / ((5 + n) / 6)^alpha, where
    n counts the tokens, the end token included. Each step keeps the K best
    continuations of the live hypotheses. A continuation with the end token is
    finished if it is among the K best, and its score never changes again. The
    search of a sentence stops when K hypotheses are finished and no live one
    can still score better than the worst of them, or at the maximum length.
    The last token at the maximum length is always the end token, so every
    hypothesis ends with one. With beam size 1 the search is greedy: it takes
    the best token until that is the end token.
    """

    beam_size: int = described(
        POSITIVE_INTEGER,
        "hypotheses kept per sentence, K; 1 is greedy",
        default=4,
    )
    alpha: float = described(
        NON_NEGATIVE_NUMBER, "exponent of the length penalty", default=0.6
    )
    extra_length: int = described(
        NON_NEGATIVE_INTEGER,
        "maximum length of a translation, in tokens beyond length_factor "
        "times the length of the source",
        default=50,
    )
    length_factor: float = described(
        NON_NEGATIVE_NUMBER,
        "tokens that a translation may have per token of the source, before "
        "extra_length is added",
        default=1.0,
    )

    def __post_init__(self) -> None:
        check_fields(self)
