"""`KerasEngine`: searches and scores with Keras models, on every backend.

Letters: B = batch, K = beam size, C = candidates of a hypothesis, S = source
length, T = target length, V = vocabulary.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer.decoding import StepDecoder, token_log_probs
from keras_transformer.decoding.numpy_search import Predictions, beam_search
from keras_transformer.decoding.search_arrays import SearchResult
from keras_transformer.decoding.settings import BeamSearch, Search
from keras_transformer.inference.engine import Engine, Ids
from keras_transformer.model import Transformer
from keras_transformer.quantized import policy_of
from keras_transformer.support.errors import InputError
from keras_transformer.text import Tokenizer
from keras_transformer.text.ids import padded

# Models and tokenizers that work together have the same values of these.
_SHARED_IDS = ("vocab_size", "pad_id", "bos_id", "eos_id")


class KerasEngine(Engine):
    """Searches with NumPy; a model computes each step.

    The next-token probabilities of several models (an ensemble) are averaged.

    Args:
        models: The models.
        tokenizer: The tokenizer that they were trained with.
    """

    def __init__(
        self, models: Sequence[Transformer], tokenizer: Tokenizer
    ) -> None:
        self.models = list(models)
        own = [getattr(tokenizer, name) for name in _SHARED_IDS]
        own.append(tokenizer.source.vocab_size)
        for model in models:
            config = model.config
            ids = [getattr(config, name) for name in _SHARED_IDS]
            ids.append(config.source_vocab_size or config.vocab_size)
            if ids != own:
                raise InputError(
                    "The tokenizer must be the one that each model was trained "
                    f"with. Received: {', '.join(_SHARED_IDS)}, source size: "
                    f"{own} of the tokenizer, {ids} of a model"
                )
        self.max_length = min(model.config.max_length for model in models)
        self.dtype = policy_of(models[0]).name
        self.special_ids = tokenizer.special_ids

    def search(
        self,
        sources: Sequence[Ids],
        prefixes: Sequence[Ids],
        limits: np.ndarray,
        settings: Search,
        count: int,
    ) -> SearchResult:
        if not isinstance(settings, BeamSearch):
            self.search_tensors()
        ids, longest, beams = self.special_ids, max(limits), settings.beam_size
        num_candidates = 2 * beams + len(ids.banned_ids)
        if settings.no_repeat_ngram:  # each earlier token may be banned
            num_candidates += longest
        source = padded(sources, ids.pad_id)
        step = make_step(self.models, source, longest, beams)
        decoding = _Decoding(*step, num_candidates)
        return beam_search(decoding, limits, settings, count, ids, prefixes)

    def search_tensors(self, *arguments: Any) -> SearchResult:
        """Searches in a TensorFlow graph; see `GraphEngine`."""
        raise InputError(
            "Sampling and SavedModels need Keras on TensorFlow. Received: the "
            f"backend {keras.config.backend()}"
        )

    def log_probs(
        self, sources: Sequence[Ids], targets: Sequence[Ids]
    ) -> np.ndarray:
        pad_id = self.special_ids.pad_id
        arrays = (padded(x, pad_id) for x in (sources, targets))
        log_probs = self.token_log_probs(*map(ops.convert_to_tensor, arrays))
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
        results = (
            decoder.decode_step(ids, parents, cache, index)
            for decoder, cache in zip(decoders, caches, strict=True)
        )
        logits, caches = zip(*results, strict=True)
        return _mean_log_probs(logits), caches

    return step, caches


@dataclasses.dataclass
class _Decoding:
    """The argument `decoding` of `numpy_search.beam_search`."""

    next_log_probs: Callable  # a step function
    caches: tuple
    num_candidates: int  # C
    length: int = 0  # tokens decoded so far
    finished_share = 0.5  # JAX compiles for each size of the batch

    def step(
        self, ids: np.ndarray, parents: np.ndarray, forced_ids: np.ndarray
    ) -> Predictions:
        log_probs, caches = self.next_log_probs(
            ids, parents.astype(np.int32), self.caches, self.length
        )
        # PyTorch would keep what its gradients need.
        self.caches = keras.tree.map_structure(ops.stop_gradient, caches)
        self.length += 1
        count = min(self.num_candidates, log_probs.shape[-1])
        best = ops.top_k(log_probs, count)
        # The search changes these arrays: they need their own memory.
        best, tokens, log_probs = (
            np.array(ops.convert_to_numpy(x)) for x in (*best, log_probs)
        )
        forced = np.take_along_axis(log_probs, forced_ids[..., None], axis=-1)
        return Predictions(best, tokens, forced)

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
