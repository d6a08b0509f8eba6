"""Decoding speed of this library's LiteRT models, without TensorFlow.

Mode `threads`: all threads on one batch; `workers`: as many parts of a batch at
the same time as there are cores, with a thread each.

`python litert_decoding.py --shape small --model FOLDER`, with a folder that
export_models.py or `save_litert` has written in the dtype.
"""

import concurrent.futures
import os
import queue
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import workload

from keras_transformer.decoding.numpy_search import beam_search
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.inference.exports import MODEL_FILE
from keras_transformer.litert.interpreter import LiteDecoding, LiteModel
from keras_transformer.text.ids import SpecialIds


def main() -> None:
    """Decodes and prints the results."""
    options = workload.parse_decoding_options(
        __doc__,
        modes=["threads", "workers"],
        dtypes=["float32", "int8"],
        needs_model=True,
    )
    cores = len(os.sched_getaffinity(0))
    workers, threads = (1, cores) if options.mode == "threads" else (cores, 1)
    ids = SpecialIds(bos_id=2, eos_id=3, pad_id=0, banned_ids=(0, 1, 2))
    models = queue.LifoQueue()
    for _ in range(workers):
        path = Path(options.model, MODEL_FILE)
        models.put(LiteModel(path, threads, ids.pad_id))
    pool = concurrent.futures.ThreadPoolExecutor(workers)

    def make_translate(
        length: int, beam_size: int
    ) -> Callable[[np.ndarray], np.ndarray]:
        # Of random weights no hypothesis ends before its maximum length.
        search = BeamSearch(
            beam_size,
            alpha=workload.ALPHA,
            length_factor=0,
            extra_length=length,
        )

        def translate_part(source: np.ndarray) -> np.ndarray:
            limits = np.full(len(source), length, np.int32)
            model = models.get()
            sources = [[*row, ids.eos_id] for row in source]
            found = beam_search(
                LiteDecoding(model, sources, None),
                limits,
                search,
                ids,
                count=1,
                prefix=np.zeros((len(source), 0), np.int32),
            )
            models.put(model)
            return found.ids[:, 0, : min(found.lengths[:, 0])]

        def translate(source: np.ndarray) -> np.ndarray:
            parts = np.array_split(source, min(workers, len(source)))
            return np.concatenate(list(pool.map(translate_part, parts)))

        return translate

    workload.time_decoding(
        make_translate,
        options,
        "ours, LiteRT",
        f"ai-edge-litert {version('ai-edge-litert')}",
    )


if __name__ == "__main__":
    main()
