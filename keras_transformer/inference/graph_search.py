"""`GraphSearch`: searches with Keras models in TensorFlow's graphs.

Letters: B = batch, S = source length, p = prefix length.
"""

import functools
from collections.abc import Sequence

import tensorflow as tf

from keras_transformer import decoding
from keras_transformer.decoding.settings import BeamSearch, Search, SearchResult
from keras_transformer.inference.keras_decoding import (
    CompiledFunctions,
    ModelSteps,
)
from keras_transformer.model import Transformer
from keras_transformer.text.ids import SpecialIds

_IDS = tf.TensorSpec([None, None], tf.int32)
_LIMITS = tf.TensorSpec([None], tf.int32)
_COUNT = tf.TensorSpec([], tf.int32)


class GraphSearch:
    """Searches with the models of a `KerasEngine`. It traces a search once."""

    def __init__(
        self, models: Sequence[Transformer], special_ids: SpecialIds
    ) -> None:
        self._models = models
        self._special_ids = special_ids
        self._compiled = CompiledFunctions(models)

    def search_tensors(
        self,
        source: tf.Tensor,
        prefix: tf.Tensor,
        limits: tf.Tensor,
        settings: Search,
        count: int | tf.Tensor,
    ) -> SearchResult:
        """Searches for padded ids `[B, S]` and `[B, p]`; see `Engine.search`.

        In a graph, fields of the settings may be scalar tensors.
        """
        if any(map(tf.is_tensor, vars(settings).values())):
            return self._build(source, prefix, limits, count, settings)
        graph = self._compiled.get(
            settings,
            # AutoGraph is not needed, and takes longer than tracing.
            lambda: tf.function(
                functools.partial(self._build, settings=settings),
                [_IDS, _IDS, _LIMITS, _COUNT],
                autograph=False,
            ),
        )
        result = graph(source, prefix, limits, count)
        # Clients of a served model read n from the shapes.
        return SearchResult(
            ids=tf.ensure_shape(result.ids, [None, count, None]),
            scores=tf.ensure_shape(result.scores, [None, count]),
            lengths=tf.ensure_shape(result.lengths, [None, count]),
        )

    def _build(
        self,
        source: tf.Tensor,
        prefix: tf.Tensor,
        limits: tf.Tensor,
        count: tf.Tensor,
        settings: Search,
    ) -> SearchResult:
        """Searches, operation by operation."""
        # The maximum of an empty batch is negative.
        longest = tf.maximum(tf.reduce_max(limits), 0)
        steps = ModelSteps(self._models, longest, settings.num_hypotheses)
        step = steps.step
        caches = steps.init_caches(source)
        if isinstance(settings, BeamSearch):
            return decoding.beam_search(
                step, caches, limits, settings, self._special_ids, count, prefix
            )
        # The keys of samples are hash values of ids without padding.
        words = tf.strings.as_string(source) + " "
        words = tf.where(source != self._special_ids.pad_id, words, "")
        joined = tf.strings.reduce_join(words, axis=1)
        keys = tf.strings.to_hash_bucket_fast(joined, 2**62)
        result = decoding.sample(
            step, caches, limits, keys, settings, self._special_ids, prefix
        )
        return SearchResult._make(values[:, :count] for values in result)
