"""`KerasEngine`: searches and scores with Keras models, on every backend.

Letters: B = batch, K = beam size, C = candidates of a hypothesis, S = source
length, T = target length, V = vocabulary.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer.config import TransformerConfig
from keras_transformer.decoding import StepDecoder, token_log_probs
from keras_transformer.decoding.numpy_search import Predictions, beam_search
from keras_transformer.decoding.search_arrays import (
    SearchResult,
    SpecialIds,
    padded,
)
from keras_transformer.decoding.settings import BeamSearch, Search
from keras_transformer.inference.engine import Engine, Ids
from keras_transformer.model import AttentionScores, Transformer
from keras_transformer.support.errors import InputError
from keras_transformer.text import Tokenizer

# Fields that models and vocabularies must share to work together.
_SHARED_FIELDS = "vocab_size, pad_id, bos_id, eos_id, source_vocab_size"


def make_engine(
    models: Sequence[Transformer], tokenizer: Tokenizer
) -> "KerasEngine":
    """Returns the engine for the backend of Keras."""
    if keras.config.backend() != "tensorflow":
        return KerasEngine(models, tokenizer)
    from keras_transformer.inference.graph_engine import GraphEngine

    return GraphEngine(models, tokenizer)


class KerasEngine(Engine):
    """Searches with a model step by step, with NumPy.

    Several models (an ensemble) with the same special ids are decoded side by
    side, and their probabilities of the next token are averaged.

    Args:
        models: The models.
        tokenizer: The tokenizer that they were trained with.
    """

    has_attention = True

    def __init__(
        self, models: Sequence[Transformer], tokenizer: Tokenizer
    ) -> None:
        self.models = list(models)
        configs = [model.config for model in models]
        own = _shared_fields(tokenizer, tokenizer.source.vocab_size)
        for config in configs:
            source_size = config.source_vocab_size or config.vocab_size
            fields = _shared_fields(config, source_size)
            if fields != own:
                raise InputError(
                    "The tokenizer must be the one that each model was trained "
                    f"with. Received: ({_SHARED_FIELDS}) = {own} of the "
                    f"tokenizer, {fields} of a model"
                )
        config = configs[0]
        self.max_length = min(config.max_length for config in configs)
        self.dtype = models[0].dtype_policy.name
        self.special_ids = SpecialIds.of(
            config.bos_id, config.eos_id, config.pad_id, tokenizer.unk_id
        )

    def search(
        self,
        sources: Sequence[Ids],
        prefixes: Sequence[Ids],
        limits: np.ndarray,
        settings: Search,
        count: int,
    ) -> SearchResult:
        if not isinstance(settings, BeamSearch):
            raise InputError(
                "Sampling needs Keras on TensorFlow. Received: the backend "
                f"{keras.config.backend()}. Use a BeamSearch."
            )
        decoding = _Decoding(self, sources, max(limits), settings)
        return beam_search(
            decoding, limits, settings, count, self.special_ids, prefixes
        )

    def log_probs(
        self, sources: Sequence[Ids], targets: Sequence[Ids]
    ) -> np.ndarray:
        arrays = (
            padded(x, self.special_ids.pad_id) for x in (sources, targets)
        )
        log_probs = self.token_log_probs(*map(ops.convert_to_tensor, arrays))
        return ops.convert_to_numpy(ops.sum(log_probs, axis=-1))

    def token_log_probs(self, source: Any, labels: Any) -> Any:
        """Returns log P of each token of given translations, float32 `[B, T]`.

        Ids `[B, S]` and `[B, T]` have their end tokens. It is 0 for padding.
        """
        bos = ops.full_like(labels[:, :1], self.special_ids.bos_id)
        target = ops.concatenate([bos, labels[:, :-1]], axis=1)
        inputs = {"source": source, "target": target}
        logits = mean_log_probs([model(inputs) for model in self.models])
        return token_log_probs(labels, logits, self.special_ids.pad_id)

    def attention(self, source: Ids, target: Ids) -> AttentionScores:
        """Returns the attention of the first model, without the batch axis.

        Args:
            source: Ids of one source with its end token.
            target: Ids that the decoder reads, the start token first.
        """
        arrays = (np.array([ids], np.int32) for ids in (source, target))
        scores = self.models[0].attention_scores(*arrays)
        return AttentionScores(
            *(
                [ops.convert_to_numpy(layer[0]) for layer in part]
                for part in scores
            )
        )


def make_step(
    models: Sequence[Transformer], source: Any, longest: Any, count: Any
) -> tuple[Callable, tuple]:
    """Returns the step function of a search, and its cache.

    The function is called with ids and parents `[B, K]`, the cache and the
    position, and returns log P of the next tokens, `[B, K, V]`, and the cache.
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
        return mean_log_probs(logits), caches

    return step, caches


class _Decoding:
    """Decodes token by token, as `numpy_search.beam_search` asks."""

    def __init__(
        self,
        engine: KerasEngine,
        sources: Sequence[Ids],
        longest: int,
        settings: BeamSearch,
    ) -> None:
        source = padded(sources, engine.special_ids.pad_id)
        beams, banned = settings.beam_size, len(engine.special_ids.banned_ids)
        self._step, self._caches = make_step(
            engine.models, source, longest, beams
        )
        self._length = 0  # tokens decoded so far
        if settings.no_repeat_ngram:  # it may ban each token before
            banned += longest
        self._count = 2 * beams + banned

    def step(
        self,
        ids: np.ndarray,
        parents: np.ndarray,
        forced_ids: np.ndarray | None = None,
    ) -> Predictions:
        log_probs, caches = self._step(
            ids, parents.astype(np.int32), self._caches, self._length
        )
        # PyTorch would keep what its gradients need.
        self._caches = keras.tree.map_structure(ops.stop_gradient, caches)
        self._length += 1
        count = min(self._count, log_probs.shape[-1])
        arrays = [*ops.top_k(log_probs, count), log_probs]
        # What the search changes must not be the backend's memory.
        best, tokens, log_probs = map(
            np.array, map(ops.convert_to_numpy, arrays)
        )
        if forced_ids is None:
            forced_ids = np.zeros_like(ids)
        forced = np.take_along_axis(log_probs, forced_ids[..., None], axis=-1)
        return Predictions(best, tokens, forced)

    def keep(self, rows: np.ndarray) -> None:
        self._caches = keras.tree.map_structure(
            lambda x: ops.take(x, rows, axis=0), self._caches
        )


def _shared_fields(
    ids: TransformerConfig | Tokenizer, source_size: int
) -> tuple[int, ...]:
    return (ids.vocab_size, ids.pad_id, ids.bos_id, ids.eos_id, source_size)


def mean_log_probs(logits: Sequence[Any]) -> Any:
    """Returns the log of the mean of the models' probabilities, float32."""
    log_probs = [ops.log_softmax(ops.cast(z, "float32")) for z in logits]
    if len(log_probs) == 1:
        return log_probs[0]
    total = ops.logsumexp(ops.stack(log_probs), axis=0)
    return total - math.log(len(log_probs))
