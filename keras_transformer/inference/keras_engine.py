"""`KerasEngine`: searches and scores with Keras models, on every backend.

Letters: B = batch, K = beam size, T = target length, V = vocabulary.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer.decoding import StepDecoder, numpy_search
from keras_transformer.decoding.settings import BeamSearch, Search, SearchResult
from keras_transformer.inference.engine import Engine, Ids
from keras_transformer.losses import token_log_probs
from keras_transformer.model import Transformer
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
        self._graphs: Any = None
        if keras.config.backend() == "tensorflow":
            from keras_transformer.inference.graph_search import GraphSearch

            self._graphs = GraphSearch(self.models, self.special_ids)
            self.has_trace = True
            self.recommended_workers = decoding_workers()

    @property
    def graphs(self) -> Any:
        """The `GraphSearch` of the models."""
        if self._graphs is None:
            raise InputError(
                "Sampling and SavedModels need Keras on TensorFlow. Received: "
                f"the backend {keras.config.backend()}"
            )
        return self._graphs

    def search(
        self,
        sources: Sequence[Ids],
        prefixes: Sequence[Ids],
        limits: np.ndarray,
        settings: Search,
        count: int,
        workers: int = 1,
    ) -> SearchResult:
        ids = self.special_ids
        source = padded(sources, ids.pad_id)
        prefix = padded(prefixes, ids.pad_id)
        if self._graphs or not isinstance(settings, BeamSearch):
            result = self.graphs.search_tensors(
                source, prefix, limits, settings, count
            )
            return SearchResult._make(values.numpy() for values in result)
        longest = max(limits)
        beam_size = settings.beam_size
        step, caches = make_step(self.models, source, longest, beam_size)
        num_candidates = 2 * beam_size + len(ids.banned_ids)
        if settings.no_repeat_ngram:  # each earlier token may be banned
            num_candidates += longest
        decoding = KerasDecoding(step, caches, num_candidates)
        return numpy_search.beam_search(
            decoding, limits, settings, ids, count, prefix
        )

    def log_probs(
        self, sources: Sequence[Ids], targets: Sequence[Ids], workers: int = 1
    ) -> np.ndarray:
        pad_id = self.special_ids.pad_id
        source = ops.convert_to_tensor(padded(sources, pad_id))
        labels = ops.convert_to_tensor(padded(targets, pad_id))
        log_probs = self.token_log_probs(source, labels)
        return ops.convert_to_numpy(ops.sum(log_probs, axis=-1))

    def token_log_probs(self, source: Any, labels: Any) -> Any:
        """Returns log P of each label, float32 `[B, T]`; 0 for padding."""
        bos = ops.full_like(labels[:, :1], self.special_ids.bos_id)
        target = ops.concatenate([bos, labels[:, :-1]], axis=1)
        inputs = {"source": source, "target": target}
        logits = _mean_log_probs([model(inputs) for model in self.models])
        return token_log_probs(labels, logits, self.special_ids.pad_id)


def make_step(
    models: Sequence[Transformer], source: Any, longest: Any, count: Any
) -> tuple[Callable, tuple]:
    """Returns the step function of a search, and its cache.

    The function returns log P of the next tokens, `[B, K, V]`, and the cache.
    """
    decoders = [StepDecoder(model, longest, count) for model in models]
    caches = tuple(
        decoder.init_cache(model.encode(source))
        for decoder, model in zip(decoders, models, strict=True)
    )

    def step(ids: Any, parents: Any, caches: tuple, index: Any) -> tuple:
        results = [
            decoder.decode_step(ids, parents, cache, index)
            for decoder, cache in zip(decoders, caches, strict=True)
        ]
        caches = tuple(cache for _, cache in results)
        return _mean_log_probs([logits for logits, _ in results]), caches

    return step, caches


@dataclasses.dataclass
class KerasDecoding(numpy_search.Decoding):
    """Decodes with Keras models."""

    next_log_probs: Callable  # a step function
    caches: tuple
    num_candidates: int  # of each hypothesis
    length: int = 0  # tokens decoded so far
    finished_share = 0.5  # JAX compiles for each size of the batch

    def step(
        self, ids: np.ndarray, parents: np.ndarray, forced_ids: np.ndarray
    ) -> numpy_search.Predictions:
        log_probs, caches = self.next_log_probs(
            ids, parents.astype(np.int32), self.caches, self.length
        )
        # PyTorch would keep what its gradients need.
        self.caches = keras.tree.map_structure(ops.stop_gradient, caches)
        self.length += 1
        count = min(self.num_candidates, log_probs.shape[-1])
        best, tokens = ops.top_k(log_probs, count)
        log_probs = ops.convert_to_numpy(log_probs)
        forced_ids = forced_ids[..., None]
        # The search changes these arrays: they need their own memory.
        return numpy_search.Predictions(
            log_probs=np.array(ops.convert_to_numpy(best)),
            tokens=np.array(ops.convert_to_numpy(tokens)),
            forced_log_probs=np.take_along_axis(log_probs, forced_ids, -1),
        )

    def keep(self, rows: np.ndarray) -> None:
        self.caches = keras.tree.map_structure(
            lambda x: ops.take(x, rows, axis=0), self.caches
        )


def _mean_log_probs(logits: Sequence[Any]) -> Any:
    """Returns the log of the mean of the models' probabilities, float32."""
    log_probs = [ops.log_softmax(ops.cast(z, "float32")) for z in logits]
    if len(log_probs) == 1:
        return log_probs[0]
    total = ops.logsumexp(ops.stack(log_probs), axis=0)
    return total - math.log(len(log_probs))
