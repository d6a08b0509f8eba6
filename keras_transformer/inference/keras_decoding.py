"""`KerasDecoding`: the steps of the NumPy search, with Keras models.

Letters: B = batch, S = source length, K = beam size, V = vocabulary.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transformer.decoding import DecoderCache, StepDecoder, numpy_search
from keras_transformer.decoding.operations import on_backend
from keras_transformer.model import Transformer

# The first room of a cache, and the shortest texts that JAX compiles for.
_LENGTH = 32


class ModelSteps:
    """Decodes with several models, and averages their probabilities."""

    def __init__(
        self,
        models: Sequence[Transformer],
        longest: Any,
        beam_size: Any,
        num_candidates: int = 0,
    ) -> None:
        self._models = models
        self._num_candidates = num_candidates
        backend = keras.config.backend()
        compare = backend == "tensorflow"  # else the engine does
        self._decoders = lambda: [
            StepDecoder(model, longest, beam_size, compare=compare)
            for model in models
        ]
        if backend != "jax":  # where each function prepares its weights
            self._decoders = functools.cache(self._decoders)

    def init_caches(self, source: Any) -> tuple:
        """Returns the caches before the first step, for ids `[B, S]`."""
        return tuple(
            decoder.init_cache(model.encode(source))
            for decoder, model in zip(
                self._decoders(), self._models, strict=True
            )
        )

    def step(self, ids: Any, parents: Any, caches: tuple, index: Any) -> tuple:
        """Returns log P of the next tokens, `[B, K, V]`, and the caches."""
        results = [
            decoder.decode_step(ids, parents, cache, index)
            for decoder, cache in zip(self._decoders(), caches, strict=True)
        ]
        caches = tuple(cache for _, cache in results)
        return mean_log_probs([logits for logits, _ in results]), caches

    def start(self, source: Any) -> tuple:
        """Returns caches of `_LENGTH` positions, which are not written yet."""
        return tuple(
            _with_room(cache, _LENGTH * cache.ancestry.shape[1])
            for cache in self.init_caches(source)
        )

    def predict(
        self, ids: Any, parents: Any, forced_ids: Any, caches: tuple, index: Any
    ) -> tuple:
        """Returns the fields of `Predictions`, and caches of the same size."""
        slots = [cache.ancestry.shape[2] for cache in caches]
        log_probs, caches = self.step(ids, parents, caches, index)
        # The new position is the last; the first, an unwritten one, leaves.
        caches = tuple(
            _map_positions(lambda x, first=-count: x[:, :, first:], cache)
            for count, cache in zip(slots, caches, strict=True)
        )
        forced = ops.take_along_axis(log_probs, forced_ids[..., None], axis=-1)
        count = min(self._num_candidates, log_probs.shape[-1])
        return (*ops.top_k(log_probs, count), forced), caches


class CompiledSteps(NamedTuple):
    """`start` and `predict` of `ModelSteps`."""

    start: Callable
    predict: Callable


def compiled_steps(
    models: Sequence[Transformer], longest: int, beam_size: int, count: int
) -> CompiledSteps:
    """Returns steps that JAX compiles, for a number of candidates."""
    steps = ModelSteps(models, longest, beam_size, count)
    return CompiledSteps(
        start=on_backend(models, steps.start),
        predict=on_backend(models, steps.predict),
    )


def _map_positions(function: Callable, cache: DecoderCache) -> DecoderCache:
    """Applies a function to the tensors in which axis 2 is the positions."""
    return cache._replace(
        layers=keras.tree.map_structure(function, cache.layers),
        ancestry=function(cache.ancestry),
    )


def _with_room(cache: DecoderCache, slots: int) -> DecoderCache:
    """Adds slots to which no hypothesis attends, before the others."""
    paddings = [[0, 0], [0, 0], [slots, 0], [0, 0]]
    return _map_positions(lambda x: ops.pad(x, paddings[: len(x.shape)]), cache)


@functools.partial(on_backend, [])
def _doubled(caches: tuple) -> tuple:
    """Adds as many positions as each cache has."""
    return tuple(_with_room(x, x.ancestry.shape[2]) for x in caches)


@functools.partial(on_backend, [])
def _taken(caches: tuple, rows: Any) -> tuple:
    """Returns the caches of some sentences."""
    take = functools.partial(ops.take, indices=rows, axis=0)
    return keras.tree.map_structure(take, caches)


class KerasDecoding(numpy_search.Decoding):
    """Decodes sources, which may end with rows of padding."""

    finished_share = 0.5

    def __init__(self, steps: CompiledSteps, source: Any, count: int) -> None:
        self._steps = steps
        self._caches = steps.start(source)
        self._size = len(source)  # rows of the caches
        self._rows = np.arange(count)  # of the sentences
        self._length = 0  # positions decoded so far
        self._room = _LENGTH  # positions of the caches

    def step(
        self, ids: np.ndarray, parents: np.ndarray, forced_ids: np.ndarray
    ) -> numpy_search.Predictions:
        if self._length == self._room:
            self._caches = _doubled(self._caches)
            self._room *= 2
        predictions, self._caches = self._steps.predict(
            self._padded(ids),
            self._padded(parents),
            self._padded(forced_ids),
            self._caches,
            np.int32(self._length),
        )
        self._length += 1
        return numpy_search.Predictions._make(
            ops.convert_to_numpy(x)[self._rows] for x in predictions
        )

    def _padded(self, values: np.ndarray) -> np.ndarray:
        """Returns the values of sentences in the rows of the caches."""
        padded = np.zeros((self._size, values.shape[1]), np.int32)
        padded[self._rows] = values
        return padded

    def keep(self, rows: np.ndarray) -> None:
        self._rows = self._rows[rows]
        size = rounded_rows(len(rows))
        if size < self._size:
            self._caches = _taken(self._caches, np.resize(self._rows, size))
            self._size = size
            self._rows = np.arange(len(rows))


def rounded(size: int, smallest: int = _LENGTH, factor: int = 2) -> int:
    """Returns a power of the factor times the smallest size, on JAX.

    JAX compiles for each shape, which takes as long as many steps.
    """
    if keras.config.backend() != "jax":
        return size
    while smallest < size:
        smallest *= factor
    return smallest


def rounded_rows(rows: int) -> int:
    """Returns one of few sizes of a batch on JAX: 8, 32, 128 and so on."""
    return rounded(rows, smallest=8, factor=4)


def with_padding(ids: np.ndarray, pad_id: int, longest: int) -> np.ndarray:
    """Adds padding to ids `[B, S]`, to `rounded` sizes."""
    rows, length = ids.shape
    shape = (rounded_rows(rows), min(rounded(length), longest))
    padded = np.full(shape, pad_id, np.int32)
    padded[:rows, :length] = ids
    return padded


def mean_log_probs(logits: Sequence[Any]) -> Any:
    """Returns the log of the mean of the models' probabilities, float32."""
    log_probs = [ops.log_softmax(ops.cast(z, "float32")) for z in logits]
    if len(log_probs) == 1:
        return log_probs[0]
    total = ops.logsumexp(ops.stack(log_probs), axis=0)
    return total - math.log(len(log_probs))
