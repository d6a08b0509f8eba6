"""A pool of interpreters of one model, shared by threads."""

import contextlib
import queue
import threading
from collections.abc import Iterator
from pathlib import Path

from keras_transformer.litert.interpreter import LiteModel
from keras_transformer.support.errors import InputError


class ModelPool:
    """Opens one interpreter per concurrent use."""

    def __init__(self, file: Path, pad_id: int, window: int | None) -> None:
        self._file = file
        self._pad_id = pad_id
        self._window = window
        self._lock = threading.Lock()
        # Unused models by their number of threads; None is not open yet.
        self._idle: dict[int, queue.LifoQueue] = {}
        self._count: dict[int, int] = {}

    @contextlib.contextmanager
    def acquire(self, threads: int, max_models: int = 1) -> Iterator[LiteModel]:
        """Yields an unused model; waits while `max_models` are in use."""
        with self._lock:
            idle = self._idle.setdefault(threads, queue.LifoQueue())
            count = self._count.get(threads, 0)
            for _ in range(count, max_models):
                idle.put(None)  # opened when it is acquired
            self._count[threads] = max(count, max_models)
        model = idle.get()
        try:
            if model is None:
                model = self._open(threads)
            yield model
        except BaseException:
            # The traceback may refer to its memory, which keeps it from
            # running: open it again.
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
