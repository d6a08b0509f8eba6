"""`GraphEngine`: searches with Keras models in TensorFlow graphs.

Letters: B = batch, S = source length, p = prefix length.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer import decoding
from keras_transformer.decoding.beam import BeamSearcher, BeamState
from keras_transformer.decoding.settings import BeamSearch, Search, SearchResult
from keras_transformer.inference.engine import Ids
from keras_transformer.inference.keras_engine import KerasEngine, make_step
from keras_transformer.model import Transformer
from keras_transformer.support.startup import decoding_workers
from keras_transformer.text import Tokenizer
from keras_transformer.text.ids import padded

_IDS = tf.TensorSpec([None, None], tf.int32)
_LIMITS = tf.TensorSpec([None], tf.int32)
_COUNT = tf.TensorSpec([], tf.int32)


class GraphEngine(KerasEngine):
    """Searches with one or more models; see `KerasEngine`.

    On CPU, several workers with one thread each are up to twice as fast: set
    `TF_NUM_INTRAOP_THREADS=1` before TensorFlow is imported.
    """

    has_trace = True

    def __init__(
        self, models: Sequence[Transformer], tokenizer: Tokenizer
    ) -> None:
        super().__init__(models, tokenizer)
        self._graphs: dict[Any, Callable] = {}
        self._traced_variables: list[Any] = []
        self.recommended_workers = decoding_workers()

    def search(
        self,
        sources: Sequence[Ids],
        prefixes: Sequence[Ids],
        limits: np.ndarray,
        settings: Search,
        count: int,
    ) -> SearchResult:
        ids = (padded(x, self.special_ids.pad_id) for x in (sources, prefixes))
        result = self.search_tensors(*ids, limits, settings, count)
        return SearchResult(*(x.numpy() for x in result))

    def search_tensors(
        self,
        source: tf.Tensor,
        prefix: tf.Tensor,
        limits: tf.Tensor,
        settings: Search,
        count: int | tf.Tensor,
    ) -> SearchResult:
        """Searches for padded ids `[B, S]` and `[B, p]`; see `search`.

        In a graph, fields of the settings may be scalar tensors.
        """
        ids = source, prefix, limits
        if any(map(tf.is_tensor, vars(settings).values())):
            return self._search_tensors(*ids, count, settings)
        # Clients of a served model read n from the shapes.
        shapes = [None, count, None], [None, count], [None, count]
        result = self._graph(settings)(*ids, count)
        return SearchResult(*map(tf.ensure_shape, result, shapes))

    def _search_tensors(
        self,
        source: tf.Tensor,
        prefix: tf.Tensor,
        limits: tf.Tensor,
        count: tf.Tensor,
        settings: Search,
    ) -> SearchResult:
        # The maximum of an empty batch is negative.
        longest = tf.maximum(tf.reduce_max(limits), 0)
        step, caches = make_step(
            self.models, source, longest, settings.num_hypotheses
        )
        tokens = {**self.special_ids._asdict(), "prefix": prefix}
        arguments = [step, caches, limits]
        if isinstance(settings, BeamSearch):
            return decoding.beam_search(*arguments, settings, count, **tokens)
        # The keys of samples are hash values of ids without padding.
        words = tf.strings.as_string(source) + " "
        words = tf.where(source != self.special_ids.pad_id, words, "")
        joined = tf.strings.reduce_join(words, axis=1)
        keys = tf.strings.to_hash_bucket_fast(joined, 2**62)
        result = decoding.sample(*arguments, keys, settings, **tokens)
        return SearchResult(*(x[:, :count] for x in result))

    def beam_search_steps(
        self, source: Ids, limit: int, settings: BeamSearch, count: int
    ) -> tuple[BeamSearcher, BeamState]:
        """Returns a beam search of one source, and its first state."""
        limits = tf.constant([limit], tf.int32)
        source = tf.constant([source], tf.int32)
        step, caches = make_step(self.models, source, limit, settings.beam_size)
        searcher = BeamSearcher(step, settings, count, self.special_ids)
        return searcher, searcher.start(caches, limits, None)

    def _graph(self, settings: Search) -> Callable:
        """Returns the graph of a search, traced once."""
        # LoRA, quantization and replaced layers create new variables.
        variables = [x for model in self.models for x in model.variables]
        if list(map(id, variables)) != list(map(id, self._traced_variables)):
            self._traced_variables, self._graphs = variables, {}
        if settings not in self._graphs:
            # AutoGraph is not needed, and takes longer than tracing.
            self._graphs[settings] = tf.function(
                functools.partial(self._search_tensors, settings=settings),
                [_IDS, _IDS, _LIMITS, _COUNT],
                autograph=False,
            )
        return self._graphs[settings]
