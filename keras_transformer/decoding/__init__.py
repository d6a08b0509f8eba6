"""The search: its settings, which need no TensorFlow, and its steps.

A search depends on a step function and not on a model. Names load when they
are first used.
"""

from typing import TYPE_CHECKING

from keras_transformer.support.lazy import lazy_names

if TYPE_CHECKING:
    from keras_transformer.decoding.beam import (
        BeamSearcher,
        BeamState,
        Candidates,
        beam_search,
    )
    from keras_transformer.decoding.loop import SearchResult, StepFunction
    from keras_transformer.decoding.sampling import sample
    from keras_transformer.decoding.scoring import (
        length_penalty,
        sequence_scores,
        token_log_probs,
    )
    from keras_transformer.decoding.step import DecoderCache, StepDecoder

__all__ = [
    "BeamSearcher",
    "BeamState",
    "Candidates",
    "DecoderCache",
    "SearchResult",
    "StepDecoder",
    "StepFunction",
    "beam_search",
    "length_penalty",
    "sample",
    "sequence_scores",
    "token_log_probs",
]

_, __getattr__, __dir__ = lazy_names(__name__)
