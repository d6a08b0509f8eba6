"""The interface of an engine, which translates ids."""

import abc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_transformer.decoding.settings import Search, SearchResult
from keras_transformer.text.ids import SpecialIds

Ids = Sequence[int]  # of one text


class Engine(abc.ABC):
    """Searches and scores sequences of ids. Several threads may use it."""

    models: Sequence[Any] = ()  # Keras models; none for an export
    special_ids: SpecialIds
    max_length: int  # tokens of a source or target, end token included
    dtype: str  # of the weights
    batch_tokens: int = 2048  # default of the argument of `translate`
    recommended_workers: int = 1  # fastest number of threads for many batches

    @abc.abstractmethod
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
        """Returns the n best translations of each source, as NumPy arrays.

        Args:
            sources: B sources with their end tokens.
            prefixes: The ids with which each translation begins; may be empty.
            limits: Maximum length of each translation, end token included,
                int32 `[B]`.
            settings: The search.
            count: n, at most `settings.num_hypotheses`.
            workers: The number of threads that search at the same time.
            record: As in `numpy_search.beam_search`; for a `BeamSearch`.
        """

    @abc.abstractmethod
    def log_probs(
        self, sources: Sequence[Ids], targets: Sequence[Ids], workers: int = 1
    ) -> np.ndarray:
        """Returns log P of each target, float32 `[B]`, a natural logarithm.

        Sources and targets have their end tokens.
        """
