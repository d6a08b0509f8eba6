"""`KerasEngine`: searches and scores with Keras models, on every backend.

Letters: B = batch, K = beam size, T = target length, V = vocabulary.
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer.decoding import numpy_search
from keras_transformer.decoding.operations import on_backend
from keras_transformer.decoding.settings import BeamSearch, Search, SearchResult
from keras_transformer.inference.engine import Engine, Ids
from keras_transformer.inference.keras_decoding import (
    CompiledFunctions,
    KerasDecoding,
    ModelSteps,
    mean_log_probs,
    rounded,
    with_padding,
)
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
        self._compiled = CompiledFunctions(self.models)
        self._graphs: Any = None
        if keras.config.backend() == "tensorflow":
            from keras_transformer.inference.graph_search import GraphSearch

            self._graphs = GraphSearch(self.models, self.special_ids)
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
        record: Callable[..., None] | None = None,
    ) -> SearchResult:
        ids = self.special_ids
        source = padded(sources, ids.pad_id)
        prefix = padded(prefixes, ids.pad_id)
        is_beam = isinstance(settings, BeamSearch)
        if not is_beam or (self._graphs and record is None):
            result = self.graphs.search_tensors(
                source, prefix, limits, settings, count
            )
            return SearchResult._make(values.numpy() for values in result)
        num_candidates = 2 * settings.beam_size + len(ids.banned_ids)
        if settings.no_repeat_ngram:  # each earlier token may be banned
            num_candidates += rounded(max(limits))
        steps = self._steps(settings.beam_size, num_candidates)
        padded_source = with_padding(source, ids.pad_id, self.max_length)
        decoding = KerasDecoding(steps, padded_source, count=len(source))
        return numpy_search.beam_search(
            decoding, limits, settings, ids, count, prefix, record
        )

    def log_probs(
        self, sources: Sequence[Ids], targets: Sequence[Ids], workers: int = 1
    ) -> np.ndarray:
        pad_id = self.special_ids.pad_id
        source, labels = (
            with_padding(padded(rows, pad_id), pad_id, self.max_length)
            for rows in (sources, targets)
        )
        score = self._compiled.get(
            "log_probs", lambda: on_backend(self.models, self._log_probs)
        )
        return ops.convert_to_numpy(score(source, labels))[: len(sources)]

    def _log_probs(self, source: Any, labels: Any) -> Any:
        source = ops.convert_to_tensor(source)
        labels = ops.convert_to_tensor(labels)
        return ops.sum(self.token_log_probs(source, labels), axis=-1)

    def _steps(self, beam_size: int, count: int) -> ModelSteps:
        def make() -> ModelSteps:
            return ModelSteps(self.models, self.max_length, beam_size, count)

        if keras.config.backend() == "jax":
            return self._compiled.get((beam_size, count), make)
        return make()

    def token_log_probs(self, source: Any, labels: Any) -> Any:
        """Returns log P of each label, float32 `[B, T]`; 0 for padding."""
        bos = ops.full_like(labels[:, :1], self.special_ids.bos_id)
        target = ops.concatenate([bos, labels[:, :-1]], axis=1)
        inputs = {"source": source, "target": target}
        logits = mean_log_probs([model(inputs) for model in self.models])
        return token_log_probs(labels, logits, self.special_ids.pad_id)
