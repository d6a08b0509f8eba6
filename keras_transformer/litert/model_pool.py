"""Interpreters of one model, which threads share."""

import contextlib
import queue
import threading
from collections.abc import Iterator
from pathlib import Path

from keras_transformer.litert.interpreter import LiteModel
from keras_transformer.support.errors import InputError


class ModelPool:
    """Opens a model as often as it is used at the same time."""

    def __init__(self, file: Path, pad_id: int, window: int | None) -> None:
        self._file = file
        self._pad_id = pad_id
        self._window = window
        self._lock = threading.Lock()
        # Models that are not in use, by their number of threads; None is one
        # that is not open.
        self._idle: dict[int, queue.LifoQueue] = {}
        self._count: dict[int, int] = {}

    @contextlib.contextmanager
    def acquire(self, threads: int, max_models: int = 1) -> Iterator[LiteModel]:
        """Yields a model that nothing else computes with.

        It waits while all of `max_models` with so many threads are in use.
        """
        with self._lock:
            idle = self._idle.setdefault(threads, queue.LifoQueue())
            for _ in range(self._count.get(threads, 0), max_models):
                idle.put(None)  # opened when it is acquired
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

    def _open(self, threads: int) -> LiteModel:
        try:
            return LiteModel(self._file, threads, self._pad_id, self._window)
        except (RuntimeError, ValueError, KeyError) as error:
            raise InputError(
                f"LiteRT must be able to open {self._file}. Received: "
                f"{error!s:.200}. Install the newest ai-edge-litert, or export "
                "the model again."
            ) from error
