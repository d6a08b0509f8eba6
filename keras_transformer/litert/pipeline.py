"""Ids in, ids out: what `inference/pipeline.py` does in a graph.

Letters: B = batch.
"""

import contextlib
import queue
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.litert.decoder import Model
from keras_transformer.litert.search import (
    Hypothesis,
    SpecialIds,
    beam_search,
)
from keras_transformer.support.errors import InputError

Ids = list[int]  # of a text, without start and end tokens


class Pipeline:
    """Searches with the models of a file, one per batch that is translated.

    Args:
        file: The model.
        ids: The special ids.
        source_eos_id: What ends a source; `ids.pad` if nothing does.
        max_length: Longest source and target, in tokens.
        window: As in `Model`.
    """

    def __init__(
        self,
        file: Path,
        ids: SpecialIds,
        source_eos_id: int,
        max_length: int,
        window: int | None,
    ) -> None:
        self._file = file
        self._ids = ids
        self._source_eos_id = source_eos_id
        self._max_length = max_length
        self._window = window
        self._lock = threading.Lock()
        # Models that nothing computes with now, by their number of threads;
        # None is one that is not open.
        self._idle: dict[int, queue.LifoQueue] = {}
        self._count: dict[int, int] = {}

    @contextlib.contextmanager
    def lend(self, threads: int, max_models: int = 1) -> Iterator[Model]:
        """Lends a model that nothing else computes with.

        Args:
            threads: Threads of an operation.
            max_models: How many models with so many threads there may be.
                When all are lent, it waits.

        Raises:
            InputError: If LiteRT cannot open the file.
        """
        with self._lock:
            idle = self._idle.setdefault(threads, queue.LifoQueue())
            for _ in range(self._count.get(threads, 0), max_models):
                idle.put(None)  # opened when it is lent
            count = self._count.get(threads, 0)
            self._count[threads] = max(count, max_models)
        model = idle.get()
        try:
            if model is None:
                model = self._open(threads)
            yield model
        except BaseException:
            # A traceback may refer to its memory, with which it does not run:
            # it is opened again.
            model = None
            raise
        finally:
            idle.put(model)

    def _open(self, threads: int) -> Model:
        try:
            return Model(self._file, threads, self._ids.pad, self._window)
        except (RuntimeError, ValueError, KeyError) as error:
            raise InputError(
                f"LiteRT must be able to open {self._file}. Received: "
                f"{error!s:.200}. Install the newest ai-edge-litert, or export "
                "the model again."
            ) from error

    def max_lengths(
        self,
        sources: Sequence[Ids],
        settings: BeamSearch,
        prefixes: Sequence[Ids],
    ) -> np.ndarray:
        """Returns maximum lengths of translations, int32 `[B]`."""
        limit = self._max_length
        end = int(self._source_eos_id != self._ids.pad)
        tokens = np.array([len(ids) + end for ids in sources], np.float32)
        lengths = np.minimum(np.float32(settings.length_factor) * tokens, limit)
        lengths = lengths.astype(np.int32) + min(settings.extra_length, limit)
        # There is room for the end token, after the whole prefix.
        lengths = np.maximum(lengths, 1) + [len(ids) for ids in prefixes]
        return np.minimum(lengths, limit).astype(np.int32)

    def search(
        self,
        model: Model,
        sources: Sequence[Ids],
        settings: BeamSearch,
        prefixes: Sequence[Ids],
        max_lengths: np.ndarray,
    ) -> list[list[Hypothesis]]:
        """Returns the hypotheses of each source, best first.

        A source without tokens has one without tokens, whose score is 0.
        """
        found = [[Hypothesis([], 0.0)]] * len(sources)
        rows = [i for i, ids in enumerate(sources) if ids]
        if rows:
            eos_id = self._source_eos_id
            memory = model.encode([[*sources[i], eos_id] for i in rows])
            results = beam_search(
                model.decoding(memory, settings.beam_size),
                max_lengths[rows],
                settings,
                self._ids,
                [prefixes[i] for i in rows],
            )
            for row, hypotheses in zip(rows, results, strict=True):
                found[row] = hypotheses
        return found

    def log_probs(
        self, model: Model, sources: Sequence[Ids], targets: Sequence[Ids]
    ) -> np.ndarray:
        """Returns log P of each target, float32 `[B]`.

        That of the empty translation of an empty source, which is certain,
        is 0.
        """
        pad, bos, eos, _ = self._ids
        eos_id = self._source_eos_id
        memory = model.encode([[*source, eos_id] for source in sources])
        decoding = model.decoding(memory, beam_size=1)
        lengths = np.array([len(target) + 1 for target in targets])
        labels = np.full((len(targets), max(lengths)), pad, np.int32)
        for row, target in zip(labels, targets, strict=True):
            row[: len(target) + 1] = [*target, eos]
        last = np.full((len(targets), 1), bos, np.int32)
        parents = np.zeros_like(last)
        total = np.zeros(len(targets), np.float32)
        for position in range(max(lengths)):
            label = labels[:, position : position + 1]
            found = decoding.step(last, parents, label)
            total += np.where(position < lengths, found.forced[:, 0, 0], 0)
            last = label
        pairs = zip(sources, targets, strict=True)
        return np.where([any(pair) for pair in pairs], total, np.float32(0))
