"""`LiteEngine`: searches and scores with NumPy and ai-edge-litert alone."""

import collections
import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.decoding.numpy_search import beam_search
from keras_transformer.decoding.settings import Search, SearchResult
from keras_transformer.inference.engine import Engine, Ids
from keras_transformer.litert.interpreter import LiteDecoding, LiteModel
from keras_transformer.litert.shortlist import ExportedShortlist
from keras_transformer.support.fields import POSITIVE_INTEGER, check_values
from keras_transformer.support.startup import available_cores
from keras_transformer.text import Tokenizer
from keras_transformer.text.ids import padded


class LiteEngine(Engine):
    """Searches with a model exported for LiteRT.

    A single worker uses all `threads`; concurrent calls wait for each other.
    Several workers use one thread each, which is faster for many texts. Each
    opens a model of its own, with a copy of the weights.

    Args:
        file: The model.
        tokenizer: The tokenizer that it was trained with.
        metadata: The metadata of the export.
        threads: Threads of a single worker. Default: the number of cores.
        use_shortlist: Whether to translate with the shortlist, if there is one.
    """

    batch_tokens = 512

    def __init__(
        self,
        file: Path,
        tokenizer: Tokenizer,
        metadata: Mapping[str, Any],
        threads: int | None = None,
        use_shortlist: bool = True,
    ) -> None:
        threads = available_cores() if threads is None else threads
        check_values(POSITIVE_INTEGER, threads=threads)
        self.special_ids = tokenizer.special_ids
        self.max_length = metadata["max_length"]
        self.dtype = metadata["dtype"]
        # Each opens the model, which takes 65 MB for en-de.
        self.recommended_workers = min(threads, 8)
        self._file = file
        self._threads = threads
        self._window = metadata["attention_window"]
        self._use_shortlist = use_shortlist
        self._exported = ExportedShortlist.find(file.parent)
        self._lock = threading.Lock()
        # Unused models by their number of threads; None is not open yet.
        self._idle = collections.defaultdict(queue.LifoQueue)
        self._count = collections.Counter()

    @contextlib.contextmanager
    def _acquire(self, workers: int) -> Iterator[LiteModel]:
        """Yields an unused model; waits while all workers have one."""
        threads = self._threads if workers == 1 else 1
        with self._lock:
            idle = self._idle[threads]
            while self._count[threads] < workers:
                self._count[threads] += 1
                idle.put(None)  # opened when it is acquired
        model = idle.get()
        reusable = None
        try:
            if model is None:
                model = LiteModel(
                    self._file, threads, self.special_ids.pad_id, self._window
                )
            yield model
            # The traceback of an error may keep a model from running.
            reusable = model
        finally:
            idle.put(reusable)

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
        with self._acquire(workers) as model:
            output = None
            if self._exported is not None:
                listed = self._exported.all_ids
                if self._use_shortlist:
                    listed = self._exported.shortlist.ids(sources, prefixes)
                output = model.listed_output(self._exported, listed)
            decoding = LiteDecoding(model, sources, output)
            ids = self.special_ids
            prefix = padded(prefixes, ids.pad_id)
            return beam_search(
                decoding, limits, settings, ids, count, prefix, record
            )

    def log_probs(
        self, sources: Sequence[Ids], targets: Sequence[Ids], workers: int = 1
    ) -> np.ndarray:
        lengths = np.array([len(target) for target in targets])
        labels = padded(targets, self.special_ids.pad_id)
        last = np.full((len(targets), 1), self.special_ids.bos_id, np.int32)
        parents = np.zeros_like(last)
        total = np.zeros(len(targets), np.float32)
        with self._acquire(workers) as model:
            output = None
            if self._exported is not None:  # scores do not depend on it
                ids = self._exported.all_ids
                output = model.listed_output(self._exported, ids)
            decoding = LiteDecoding(model, sources, output)
            for position in range(max(lengths)):
                label = labels[:, position : position + 1]
                predictions = decoding.step(last, parents, label)
                log_probs = predictions.forced_log_probs[:, 0, 0]
                total += np.where(position < lengths, log_probs, 0)
                last = label
        return total
