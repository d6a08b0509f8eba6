"""Search and scoring. They know a step function; they know no model."""

from keras_transformer.decoding.beam_search import BeamSearch, SearchResult
from keras_transformer.decoding.scoring import (
    length_penalty,
    sequence_scores,
)

__all__ = ["BeamSearch", "SearchResult", "length_penalty", "sequence_scores"]
