"""Settings of beam search and sampling, and what both return."""

import dataclasses
import math
from typing import Any, NamedTuple

from keras_transformer.support import fields
from keras_transformer.support.errors import InputError

# With more hypotheses, the values over a vocabulary of 2^16 tokens would exceed
# 64 MiB per sentence.
_NUM_HYPOTHESES = fields.integer_from(1, 256)

# The length penalty is a power of one of these functions of n tokens.
_PENALTY_BASES = {
    "wu": ("((5 + n) / 6)", lambda n: (5.0 + n) / 6.0),
    "power": ("n", lambda n: n),
    # The end token is not counted, unless there is no other: 1, 1, 2, 3, ...
    "power_without_end": ("max(n - 1, 1)", lambda n: abs(n - 1.5) + 0.5),
}


class SearchResult(NamedTuple):
    """Hypotheses, best first. Fewer than K leave the last slots empty."""

    ids: Any  # [B, K, t] int32: up to the end token, then padding
    scores: Any  # [B, K] float32; -inf in an empty slot
    lengths: Any  # [B, K] int32, end token included; 0 in an empty slot


@dataclasses.dataclass(frozen=True, kw_only=True)
class _SearchSettings:
    """Base class of `BeamSearch` and `Sampling`: the fields of both."""

    alpha: float = fields.described(
        fields.number_from(0, 5),  # the power of any length is a float32
        "exponent of the length penalty, at most 5",
        default=0.6,
    )
    extra_length: int = fields.described(
        fields.NON_NEGATIVE_INTEGER,
        "tokens allowed beyond the length factor times the source length",
        default=50,
    )
    length_factor: float = fields.described(
        fields.NON_NEGATIVE_NUMBER,
        "maximum target tokens per source token, before the extra length is "
        "added",
        default=1.0,
    )
    length_penalty: str = fields.described(
        fields.one_of(*_PENALTY_BASES),
        "divisor of the log-probability of n tokens, the end token included: "
        + ", ".join(f"{x} {y}^alpha" for x, (y, _) in _PENALTY_BASES.items()),
        default="wu",
    )
    no_repeat_ngram: int = fields.described(
        fields.integer_from(0, 256),
        "length of the n-grams that a translation may not repeat; 0 for no "
        "limit",
        default=0,
    )

    def __post_init__(self) -> None:
        fields.check_fields(self)

    def with_num_translations(self, num_translations: int) -> "Search":
        """Returns these settings for a number of translations per source."""
        if not 1 <= num_translations <= self.num_hypotheses:
            raise InputError(
                f"must be an integer from 1 to {self.num_hypotheses}, the "
                f"beam_size or num_samples. Received: {num_translations}",
                argument="num_translations",
            )
        return self

    def penalty(self, length: Any) -> Any:
        """Returns the length penalty, which grows with the length.

        Args:
            length: Tokens of hypotheses, the end token included: a number, an
                array or a tensor, in float32.
        """
        _, base = _PENALTY_BASES[self.length_penalty]
        return base(length) ** self.alpha

    @property
    def formula(self) -> str:
        """The length penalty of n tokens as text."""
        text, _ = _PENALTY_BASES[self.length_penalty]
        return f"{text}^{self.alpha:g}"


@fields.document_fields
@dataclasses.dataclass(frozen=True)
class BeamSearch(_SearchSettings):
    """Settings of beam search (section 6.1; Wu et al. 2016).

    It finds the hypotheses of highest score log P / ((5 + n) / 6)^alpha, where
    n counts the tokens, the end token included; other systems divide by a
    different `length_penalty`. Each step keeps the K best continuations of the
    live hypotheses. A continuation with the end token is finished if it is
    among the K best, and its score never changes again. The search ends by the
    rule `stop`, or at the maximum length, where the last token is always the
    end token. With beam size 1 the search is greedy: it takes the best token
    until that is the end token.
    """

    beam_size: int = fields.described(
        _NUM_HYPOTHESES,
        "hypotheses kept per sentence, K, at most 256; 1 is greedy",
        default=4,
    )
    _: dataclasses.KW_ONLY
    stop: str = fields.described(
        fields.one_of("exact", "finished", "heuristic"),
        "when the search ends: exact: no live hypothesis can enter the n best; "
        "finished: K hypotheses are finished, as in Marian and CTranslate2; "
        "heuristic: no live hypothesis would enter the K best if it ended now",
        default="exact",
    )

    @property
    def num_hypotheses(self) -> int:
        """The maximum number of hypotheses."""
        return self.beam_size

    def can_win(
        self,
        log_probs: Any,
        finished_scores: Any,
        count: Any,
        length: Any,
        max_lengths: Any,
    ) -> Any:
        """Returns True where the search must go on below the maximum length.

        log P never increases: over the penalty of the maximum length, log P of
        a live hypothesis bounds its score. The bound is tight, since all
        following tokens may have probability 1.

        Args:
            log_probs: Log P of the best live hypotheses, `[B]`; -inf if none.
            finished_scores: Scores of the K best finished hypotheses, `[B, K]`;
                -inf in empty slots.
            count: n.
            length: Tokens decoded so far, at least 1, in float32.
            max_lengths: Float32 `[B]`.
        """
        if self.stop == "exact":
            bound = log_probs / self.penalty(max_lengths)
            return bound > finished_scores[:, count - 1]
        worst = finished_scores[:, -1]
        if self.stop == "finished":
            return (log_probs > -math.inf) & (worst == -math.inf)
        return log_probs / self.penalty(length) > worst


@fields.document_fields
@dataclasses.dataclass(frozen=True)
class Sampling(_SearchSettings):
    """Settings of sampling.

    Each token is drawn from the model's distribution. Its log-probabilities
    are divided by the temperature, then only the `top_k` most likely tokens
    are kept, then the fewest of these that together have at least the
    probability `top_p` (the nucleus; Holtzman et al. 2020). Tokens that are as
    likely as the last one kept are kept too. The last token at the maximum
    length is always the end token.

    Samples depend on the seed and the ids of the source only, not on other
    sources, their order or their batches. A larger `num_samples` draws the
    same samples first. Samples are returned best first, by the score of
    `BeamSearch`: log P of the model itself, without temperature, top-k and
    top-p, over the length penalty. Two samples may be the same.
    """

    temperature: float = fields.described(
        fields.number_from(0.001, 100),
        "divisor of the log-probabilities, from 0.001 to 100; below 1 likely "
        "tokens become more likely",
        default=1.0,
    )
    top_k: int = fields.described(
        fields.integer_from(0, 2**31 - 1),  # an int32
        "number of most likely tokens to draw from; 0 for all",
        default=0,
    )
    top_p: float = fields.described(
        fields.POSITIVE_FRACTION,
        "probability of the most likely tokens to draw from; 1 for all",
        default=1.0,
    )
    seed: int = fields.described(fields.SEED, "random seed", default=0)
    num_samples: int | None = fields.described(
        _NUM_HYPOTHESES,
        "translations drawn per sentence, at most 256; the best are returned; "
        "by default as many as are returned",
        default=None,
    )

    @property
    def num_hypotheses(self) -> int:
        """The maximum number of hypotheses."""
        return 1 if self.num_samples is None else self.num_samples

    def with_num_translations(self, num_translations: int) -> "Sampling":
        if self.num_samples is None and num_translations > 0:
            return dataclasses.replace(self, num_samples=num_translations)
        return super().with_num_translations(num_translations)


Search = BeamSearch | Sampling


def converted(
    search: Search, search_class: type[BeamSearch] | type[Sampling]
) -> Search:
    """Converts settings to a class; only the fields of both are kept."""
    if isinstance(search, search_class):
        return search
    names = [field.name for field in dataclasses.fields(_SearchSettings)]
    return search_class(**{name: getattr(search, name) for name in names})
