"""The search: its settings, which need no TensorFlow, and its steps.

A search depends on a step function and not on a model. Names load when they
are first used.
"""

from typing import TYPE_CHECKING

from keras_transformer.support.lazy import lazy_names

if TYPE_CHECKING:
    from keras_transformer.decoding.beam import BeamSearcher as BeamSearcher
    from keras_transformer.decoding.beam import BeamState as BeamState
    from keras_transformer.decoding.beam import Candidates as Candidates
    from keras_transformer.decoding.beam import beam_search as beam_search
    from keras_transformer.decoding.loop import StepFunction as StepFunction
    from keras_transformer.decoding.sampling import sample as sample
    from keras_transformer.decoding.scoring import (
        sequence_scores as sequence_scores,
    )
    from keras_transformer.decoding.scoring import (
        token_log_probs as token_log_probs,
    )
    from keras_transformer.decoding.search_arrays import (
        SearchResult as SearchResult,
    )
    from keras_transformer.decoding.step import DecoderCache as DecoderCache
    from keras_transformer.decoding.step import StepDecoder as StepDecoder

_NAMES = {
    "beam": "BeamSearcher BeamState Candidates beam_search",
    "loop": "StepFunction",
    "sampling": "sample",
    "scoring": "sequence_scores token_log_probs",
    "search_arrays": "SearchResult",
    "step": "DecoderCache StepDecoder",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _NAMES)
