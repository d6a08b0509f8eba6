"""`LiteEngine`: searches and scores without TensorFlow and Keras.

It needs NumPy and ai-edge-litert.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.decoding.numpy_search import beam_search
from keras_transformer.decoding.search_arrays import SearchResult
from keras_transformer.decoding.settings import Search
from keras_transformer.inference.batches import num_workers
from keras_transformer.inference.engine import Engine, Ids
from keras_transformer.inference.shortlist import SHORTLIST_FILE, Shortlist
from keras_transformer.litert.interpreter import LiteDecoding, LiteModel
from keras_transformer.litert.listed_output import ListedOutput
from keras_transformer.litert.model_pool import ModelPool
from keras_transformer.support.fields import POSITIVE_INTEGER, check_values
from keras_transformer.support.startup import available_cores
from keras_transformer.text import Tokenizer
from keras_transformer.text.ids import padded

# By default. Each opens the model, which takes 65 MB for en-de.
_MOST_WORKERS = 8


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
        self._threads = threads
        self.recommended_workers = min(threads, _MOST_WORKERS)
        self._use_shortlist, self._shortlist = use_shortlist, None
        if (shortlist := file.with_name(SHORTLIST_FILE)).exists():
            arrays = np.load(shortlist)
            self._shortlist = Shortlist(*map(arrays.get, Shortlist._fields))
            self._template = arrays["template"].tobytes()
            self._all_ids = np.arange(arrays["size"], dtype=np.int32)
        self._pool = ModelPool(
            file, tokenizer.pad_id, metadata["attention_window"]
        )

    def _acquire(self) -> AbstractContextManager[LiteModel]:
        workers = num_workers.get()
        return self._pool.acquire(self._threads if workers == 1 else 1, workers)

    def _output(
        self, model: LiteModel, sources: Sequence, prefixes: Sequence | None
    ) -> ListedOutput | None:
        """Returns the product with listed rows, or all if prefixes is None."""
        if self._shortlist is None:
            return None
        ids = self._all_ids
        if self._use_shortlist and prefixes is not None:
            ids = self._shortlist.ids(sources, prefixes)
        return model.listed_output(self._template, ids)

    def search(
        self,
        sources: Sequence[Ids],
        prefixes: Sequence[Ids],
        limits: np.ndarray,
        settings: Search,
        count: int,
    ) -> SearchResult:
        with self._acquire() as model:
            memory = model.encode(sources)
            output = self._output(model, sources, prefixes)
            decoding = LiteDecoding(model, memory, output)
            return beam_search(
                decoding, limits, settings, count, self.special_ids, prefixes
            )

    def log_probs(
        self, sources: Sequence[Ids], targets: Sequence[Ids]
    ) -> np.ndarray:
        lengths = np.array([len(target) for target in targets])
        ids = self.special_ids
        labels = padded(targets, ids.pad_id)
        last = np.full((len(targets), 1), ids.bos_id, np.int32)
        parents = np.zeros_like(last)
        total = np.zeros(len(targets), np.float32)
        with self._acquire() as model:
            memory = model.encode(sources)
            output = self._output(model, sources, None)
            decoding = LiteDecoding(model, memory, output)
            for position in range(max(lengths)):
                label = labels[:, position : position + 1]
                predictions = decoding.step(last, parents, label)
                is_token = position < lengths
                total += np.where(is_token, predictions.forced[:, 0, 0], 0)
                last = label
        return total
