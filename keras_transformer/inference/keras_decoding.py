"""`KerasDecoding`: the steps of the NumPy search, with Keras models.

Letters: B = batch, S = source length, K = beam size, V = vocabulary.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer.decoding import StepDecoder, numpy_search
from keras_transformer.decoding.step import compare_steps
from keras_transformer.model import Transformer

# The smallest batches and the shortest texts for which JAX compiles.
_ROWS = 8
_LENGTH = 32


class ModelSteps:
    """Decodes with several models, and averages their probabilities."""

    def __init__(
        self, models: Sequence[Transformer], longest: Any, count: Any
    ) -> None:
        self._models = models
        self._decoders = [StepDecoder(x, longest, count) for x in models]

    def init_caches(self, source: Any) -> tuple:
        """Returns the caches before the first step, for ids `[B, S]`."""
        return tuple(
            decoder.init_cache(model.encode(source))
            for decoder, model in zip(self._decoders, self._models, strict=True)
        )

    def step(self, ids: Any, parents: Any, caches: tuple, index: Any) -> tuple:
        """Returns log P of the next tokens, `[B, K, V]`, and the caches."""
        results = [
            decoder.decode_step(ids, parents, cache, index)
            for decoder, cache in zip(self._decoders, caches, strict=True)
        ]
        caches = tuple(cache for _, cache in results)
        return mean_log_probs([logits for logits, _ in results]), caches


class StepFunctions:
    """The functions of `KerasDecoding`, which JAX compiles for each shape."""

    def __init__(
        self,
        models: Sequence[Transformer],
        longest: int,
        beam_size: int,
        num_candidates: int,
    ) -> None:
        self.beam_size = beam_size
        self._num_candidates = num_candidates
        self._steps = lambda: ModelSteps(models, longest, beam_size)
        if keras.config.backend() == "jax":
            # Each compiled function prepares the weights that it is given.
            for model in models:
                compare_steps(model)
        else:
            steps = self._steps()
            self._steps = lambda: steps
        self.start = on_backend(models, self._start)
        self.step = on_backend(models, self._step)
        self.take = on_backend([], self._take)
        self.double = on_backend([], self._double)

    def _start(self, source: Any) -> tuple:
        caches = self._steps().init_caches(source)
        return _with_room(caches, _LENGTH * self.beam_size)

    def _step(
        self, ids: Any, parents: Any, forced_ids: Any, caches: tuple, index: Any
    ) -> tuple:
        slots = caches[0].ancestry.shape[2]
        log_probs, caches = self._steps().step(ids, parents, caches, index)
        count = min(self._num_candidates, log_probs.shape[-1])
        best, tokens = ops.top_k(log_probs, count)
        forced = ops.take_along_axis(log_probs, forced_ids[..., None], axis=-1)
        # The new position is the last one. The first, not written yet, leaves.
        caches = _map_positions(lambda x: x[:, :, -slots:], caches)
        return (best, tokens, forced), caches

    def _take(self, caches: tuple, rows: Any) -> tuple:
        take = functools.partial(ops.take, indices=rows, axis=0)
        return keras.tree.map_structure(take, caches)

    def _double(self, caches: tuple) -> tuple:
        return _with_room(caches, caches[0].ancestry.shape[2])


def _map_positions(function: Callable, caches: tuple) -> tuple:
    """Applies a function to the tensors with an axis of positions, 2."""
    return tuple(
        cache._replace(
            layers=keras.tree.map_structure(function, cache.layers),
            ancestry=function(cache.ancestry),
        )
        for cache in caches
    )


def _with_room(caches: tuple, slots: int) -> tuple:
    """Adds unwritten positions, which no hypothesis attends to, in front."""

    def pad(x: Any) -> Any:
        return ops.pad(x, [[0, 0], [0, 0], [slots, 0], [0, 0]][: len(x.shape)])

    return _map_positions(pad, caches)


class KerasDecoding(numpy_search.Decoding):
    """Decodes with Keras models, in few shapes: see `rounded`."""

    finished_share = 0.5

    def __init__(
        self, functions: StepFunctions, source: np.ndarray, count: int
    ) -> None:
        self._functions = functions
        self._caches = functions.start(source)
        self._size = len(source)  # rows of the caches
        self._rows = np.arange(count)  # of the sentences
        self._room = _LENGTH
        self._length = 0  # positions decoded so far

    def step(
        self, ids: np.ndarray, parents: np.ndarray, forced_ids: np.ndarray
    ) -> numpy_search.Predictions:
        if self._length == self._room:
            self._room *= 2
            self._caches = self._functions.double(self._caches)
        predictions, self._caches = self._functions.step(
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
        """Returns values of sentences by the rows of the caches."""
        padded = np.zeros((self._size, values.shape[1]), np.int32)
        padded[self._rows] = values
        return padded

    def keep(self, rows: np.ndarray) -> None:
        self._rows = self._rows[rows]
        # Batches of all sizes shrink to the same few.
        size = rounded(len(rows), _ROWS, factor=4)
        if size < self._size:
            rows = np.resize(self._rows, size)
            self._caches = self._functions.take(self._caches, rows)
            self._size = size
            self._rows = np.arange(len(self._rows))


def rounded(size: int, smallest: int, factor: int = 2) -> int:
    """Returns `smallest` times a power of the factor, on JAX.

    JAX compiles for each shape, which takes longer than all steps of a search.
    """
    if keras.config.backend() != "jax":
        return size
    while smallest < size:
        smallest *= factor
    return smallest


def with_padding(ids: np.ndarray, pad_id: int, longest: int) -> np.ndarray:
    """Adds padding to ids `[B, S]`, to `rounded` sizes."""
    rows, length = ids.shape
    shape = rounded(rows, _ROWS), min(rounded(length, _LENGTH), longest)
    padded = np.full(shape, pad_id, np.int32)
    padded[:rows, :length] = ids
    return padded


class CompiledFunctions:
    """The functions that were compiled for models, by a key."""

    def __init__(self, models: Sequence[Transformer]) -> None:
        self._models = models
        self._variables: list[Any] = []
        self._functions: dict[Any, Any] = {}

    def get(self, key: Any, make: Callable[[], Any]) -> Any:
        """Returns what `make` returned for the key."""
        # LoRA, quantization and replaced layers create new variables.
        variables = [x for model in self._models for x in model.variables]
        if list(map(id, variables)) != list(map(id, self._variables)):
            self._variables = variables
            self._functions = {}
        if key not in self._functions:
            self._functions[key] = make()
        return self._functions[key]


def on_backend(models: Sequence[Transformer], function: Callable) -> Callable:
    """Returns a function of models and tensors, for repeated calls.

    JAX compiles it once per shape; PyTorch records no gradients.
    """
    if keras.config.backend() == "torch":
        import torch

        return torch.no_grad()(function)
    if keras.config.backend() != "jax":
        return function
    import jax

    variables = [x for model in models for x in model.variables]

    @jax.jit
    def compiled(values: list, arguments: tuple) -> Any:
        with keras.StatelessScope(list(zip(variables, values, strict=True))):
            return function(*arguments)

    return lambda *arguments: compiled([x.value for x in variables], arguments)


def mean_log_probs(logits: Sequence[Any]) -> Any:
    """Returns the log of the mean of the models' probabilities, float32."""
    log_probs = [ops.log_softmax(ops.cast(z, "float32")) for z in logits]
    if len(log_probs) == 1:
        return log_probs[0]
    total = ops.logsumexp(ops.stack(log_probs), axis=0)
    return total - math.log(len(log_probs))
