"""Search and scoring, which depend on a step function and not on a model."""

from keras_transformer.decoding.beam_search import (
    BeamSearcher,
    BeamState,
    Candidates,
    beam_search,
)
from keras_transformer.decoding.loop import SearchResult, Step
from keras_transformer.decoding.sampling import sample
from keras_transformer.decoding.scoring import (
    length_penalty,
    sequence_scores,
    token_log_probs,
)

__all__ = [
    "BeamSearcher",
    "BeamState",
    "Candidates",
    "SearchResult",
    "Step",
    "beam_search",
    "length_penalty",
    "sample",
    "sequence_scores",
    "token_log_probs",
]
