"""Decoding speed of this library: `KerasEngine.search`.

Mode `workers`: one thread per operation, and as many parts of a batch at the
same time as there are cores. So do `keras-transformer translate` and
`evaluate`.

python benchmarks/peers/ours_decoding.py --shape small --batches 1 8 32
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import concurrent.futures
import types
from collections.abc import Callable
from importlib.metadata import version

import numpy as np
import workload


def main() -> None:
    """Decodes and prints the results."""
    options = workload.parse_decoding_options(
        __doc__, modes=["graph", "workers"], dtypes=["float32", "bfloat16"]
    )
    workers = 1
    if options.mode == "workers":
        os.environ["TF_NUM_INTRAOP_THREADS"] = "1"
        workers = len(os.sched_getaffinity(0))
    # TensorFlow reads the number of threads when it is imported.
    import keras
    import tensorflow as tf
    from ours import build_model

    import keras_transformer as kt
    from keras_transformer.inference.keras_engine import KerasEngine
    from keras_transformer.text.ids import SpecialIds

    shape = options.shape
    model = build_model(shape, options.dtype)
    # Ids go in and come out: only the special ids of a vocabulary are needed.
    values = dict(vocab_size=shape.vocab_size, source_vocab_size=None)
    values |= dict(pad_id=0, bos_id=2, eos_id=3)
    ids = SpecialIds(bos_id=2, eos_id=3, pad_id=0, banned_ids=(0, 1, 2))
    tokenizer = types.SimpleNamespace(
        config_values=lambda: values, special_ids=ids
    )
    pool = concurrent.futures.ThreadPoolExecutor(workers)

    def make_translate(
        length: int, beam_size: int
    ) -> Callable[[np.ndarray], np.ndarray]:
        # Of random weights no hypothesis ends before its maximum length.
        search = kt.BeamSearch(
            beam_size,
            alpha=workload.ALPHA,
            length_factor=0,
            extra_length=length,
        )
        engine = KerasEngine([model], tokenizer)

        def translate_part(source: np.ndarray) -> np.ndarray:
            limits = np.full(len(source), length, np.int32)
            prefixes = [[]] * len(source)
            found = engine.search(source, prefixes, limits, search, 1)
            return found.ids[:, 0, : min(found.lengths[:, 0])]

        def translate(source: np.ndarray) -> np.ndarray:
            parts = np.array_split(source, min(workers, len(source)))
            return np.concatenate(list(pool.map(translate_part, parts)))

        return translate

    workload.time_decoding(
        make_translate,
        options,
        "ours",
        f"{version('keras-transformer-nmt')}, Keras {keras.__version__}, "
        f"TensorFlow {tf.__version__}",
    )


if __name__ == "__main__":
    main()
