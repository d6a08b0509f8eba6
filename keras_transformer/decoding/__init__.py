"""Search and scoring, which depend on a step function and not on a model."""

from keras_transformer.decoding.beam_search import (
    SearchResult,
    beam_search,
)
from keras_transformer.decoding.scoring import (
    length_penalty,
    sequence_scores,
    token_log_probs,
)

__all__ = [
    "SearchResult",
    "beam_search",
    "length_penalty",
    "sequence_scores",
    "token_log_probs",
]
