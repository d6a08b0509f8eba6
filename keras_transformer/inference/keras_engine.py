"""`KerasEngine`: searches and scores with Keras models, on every backend.

Letters: B = batch, S = source length, p = prefix length, T = target length.
"""

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer import decoding
from keras_transformer.decoding import numpy_search
from keras_transformer.decoding.operations import on_backend
from keras_transformer.decoding.settings import BeamSearch, Search, SearchResult
from keras_transformer.decoding.step import compare_steps
from keras_transformer.inference.engine import Engine, Ids
from keras_transformer.inference.keras_decoding import (
    KerasDecoding,
    ModelSteps,
    compiled_steps,
    mean_log_probs,
    rounded,
    with_padding,
)
from keras_transformer.losses import token_log_probs
from keras_transformer.model import AttentionScores, Transformer
from keras_transformer.quantized import policy_of
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import decoding_workers
from keras_transformer.text import Tokenizer
from keras_transformer.text.ids import padded


class KerasEngine(Engine):
    """Searches with NumPy or, on TensorFlow, in graphs.

    The next-token probabilities of several models (an ensemble) are averaged.
    With TensorFlow on CPU, several workers with one thread each are up to twice
    as fast: set `TF_NUM_INTRAOP_THREADS=1` before TensorFlow is imported.

    Args:
        models: The models.
        tokenizer: The tokenizer that they were trained with.
    """

    def __init__(
        self, models: Sequence[Transformer], tokenizer: Tokenizer
    ) -> None:
        self.models = list(models)
        expected = tokenizer.config_values()
        for model in models:
            values = {name: getattr(model.config, name) for name in expected}
            if values["source_vocab_size"] == values["vocab_size"]:
                values["source_vocab_size"] = None
            if values != expected:
                raise InputError(
                    "The tokenizer must be the one that each model was trained "
                    f"with. Received: {expected} of the tokenizer, {values} of "
                    "a model"
                )
        self.max_length = min(model.config.max_length for model in models)
        self.dtype = policy_of(models[0]).name
        self.special_ids = tokenizer.special_ids
        self._lock = threading.Lock()  # of the next two
        self._variables: list[Any] = []
        self._compiled: dict[Any, Any] = {}  # for these variables
        self._has_graphs = keras.config.backend() == "tensorflow"
        if self._has_graphs:
            self.recommended_workers = decoding_workers()

    def search(
        self,
        sources: Sequence[Ids],
        prefixes: Sequence[Ids],
        limits: np.ndarray,
        settings: Search,
        count: int,
        workers: int = 1,
        record: Callable[..., None] | None = None,
    ) -> SearchResult:
        ids = self.special_ids
        source = padded(sources, ids.pad_id)
        prefix = padded(prefixes, ids.pad_id)
        is_beam = isinstance(settings, BeamSearch)
        if not is_beam or (self._has_graphs and record is None):
            result = self.search_tensors(
                source, prefix, limits, settings, count
            )
            return SearchResult._make(values.numpy() for values in result)
        num_candidates = 2 * settings.beam_size + len(ids.banned_ids)
        if settings.no_repeat_ngram:  # each earlier token may be banned
            num_candidates += rounded(max(limits))
        self._cached(
            "compared", lambda: [compare_steps(x) for x in self.models]
        )
        make_steps = functools.partial(
            compiled_steps,
            self.models,
            self.max_length,
            settings.beam_size,
            num_candidates,
        )
        if keras.config.backend() == "jax":
            key = (settings.beam_size, num_candidates)
            steps = self._cached(key, make_steps)
        else:  # they keep prepared weights, as they are now
            steps = make_steps()
        padded_source = with_padding(source, ids.pad_id, self.max_length)
        batch = KerasDecoding(steps, padded_source, count=len(source))
        return numpy_search.beam_search(
            batch, limits, settings, ids, count, prefix, record
        )

    def search_tensors(
        self,
        source: Any,
        prefix: Any,
        limits: Any,
        settings: Search,
        count: Any,
    ) -> SearchResult:
        """Searches for padded ids `[B, S]` and `[B, p]` with TensorFlow.

        It traces a search once. In a graph, the fields of the settings and n
        may be scalar tensors. The other arguments are as in `search`.
        """
        if not self._has_graphs:
            raise InputError(
                "Sampling and SavedModels need Keras on TensorFlow. Received: "
                f"the backend {keras.config.backend()}"
            )
        import tensorflow as tf

        search = functools.partial(self._search_operations, settings=settings)
        if any(map(tf.is_tensor, vars(settings).values())):
            return search(source, prefix, limits, count)
        shapes = ([None, None], [None, None], [None], [])
        specs = [tf.TensorSpec(shape, tf.int32) for shape in shapes]
        # AutoGraph is not needed, and takes longer than tracing.
        graph = self._cached(
            settings,
            lambda: tf.function(search, specs, autograph=False),
        )
        result = graph(source, prefix, limits, count)
        # Clients of a served model read n from the shapes.
        return SearchResult(
            ids=tf.ensure_shape(result.ids, [None, count, None]),
            scores=tf.ensure_shape(result.scores, [None, count]),
            lengths=tf.ensure_shape(result.lengths, [None, count]),
        )

    def _search_operations(
        self,
        source: Any,
        prefix: Any,
        limits: Any,
        count: Any,
        settings: Search,
    ) -> SearchResult:
        """Searches, operation by operation of TensorFlow."""
        import tensorflow as tf

        # The maximum of an empty batch is negative.
        longest = tf.maximum(tf.reduce_max(limits), 0)
        steps = ModelSteps(self.models, longest, settings.num_hypotheses)
        step = steps.step
        caches = steps.init_caches(source)
        ids = self.special_ids
        if isinstance(settings, BeamSearch):
            return decoding.beam_search(
                step, caches, limits, settings, ids, count, prefix
            )
        # The keys of samples are hash values of ids without padding.
        words = tf.strings.as_string(source) + " "
        words = tf.where(source != ids.pad_id, words, "")
        joined = tf.strings.reduce_join(words, axis=1)
        keys = tf.strings.to_hash_bucket_fast(joined, 2**62)
        result = decoding.sample(
            step, caches, limits, keys, settings, ids, prefix
        )
        return SearchResult._make(values[:, :count] for values in result)

    def log_probs(
        self, sources: Sequence[Ids], targets: Sequence[Ids], workers: int = 1
    ) -> np.ndarray:
        pad_id = self.special_ids.pad_id
        source, labels = (
            with_padding(padded(rows, pad_id), pad_id, self.max_length)
            for rows in (sources, targets)
        )
        score = self._cached(
            "log_probs", lambda: on_backend(self.models, self._log_probs)
        )
        return ops.convert_to_numpy(score(source, labels))[: len(sources)]

    def _log_probs(self, source: Any, labels: Any) -> Any:
        source = ops.convert_to_tensor(source)
        labels = ops.convert_to_tensor(labels)
        return ops.sum(self.token_log_probs(source, labels), axis=-1)

    def attention_scores(
        self, model: Transformer, source: Ids, target: Ids
    ) -> AttentionScores:
        """Returns the attention of a model for one sentence, in NumPy.

        Its arrays have no axis of the batch.
        """
        compute = self._cached(
            ("attention", id(model)),
            lambda: on_backend([model], model.attention_scores),
        )
        pad_id = self.special_ids.pad_id
        rows = (
            with_padding(padded([ids], pad_id), pad_id, self.max_length)
            for ids in (source, target)
        )
        scores = keras.tree.map_structure(ops.convert_to_numpy, compute(*rows))
        s, t = len(source), len(target)
        return AttentionScores(
            encoder=[x[0, :, :s, :s] for x in scores.encoder],
            decoder=[x[0, :, :t, :t] for x in scores.decoder],
            cross=[x[0, :, :t, :s] for x in scores.cross],
        )

    def _cached(self, key: Any, make: Callable[[], Any]) -> Any:
        """Returns what `make` returned for the key and these variables."""
        # LoRA, quantization and replaced layers create new variables.
        variables = [x for model in self.models for x in model.variables]
        with self._lock:
            if list(map(id, variables)) != list(map(id, self._variables)):
                self._variables = variables
                self._compiled = {}
            if key not in self._compiled:
                self._compiled[key] = make()
            return self._compiled[key]

    def token_log_probs(self, source: Any, labels: Any) -> Any:
        """Returns log P of each label, float32 `[B, T]`; 0 for padding."""
        bos = ops.full_like(labels[:, :1], self.special_ids.bos_id)
        target = ops.concatenate([bos, labels[:, :-1]], axis=1)
        inputs = {"source": source, "target": target}
        logits = mean_log_probs([model(inputs) for model in self.models])
        return token_log_probs(labels, logits, self.special_ids.pad_id)
