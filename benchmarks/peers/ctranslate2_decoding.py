"""Decoding speed of CTranslate2, with two threads or two workers.

`python ctranslate2_decoding.py --shape small --model FOLDER` in an environment
with ctranslate2. The folder is what export_models.py or `save_ctranslate2` has
written, the weights in float32; ids are its vocabulary's.
"""

import json
import os
import pathlib
from collections.abc import Callable

import ctranslate2
import numpy as np
import workload


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
    folder = pathlib.Path(options.model)
    translator = ctranslate2.Translator(
        str(folder),
        compute_type=options.dtype,
        inter_threads=workers,
        intra_threads=threads,
    )
    pieces = json.loads((folder / "shared_vocabulary.json").read_bytes())

    def make_translate(
        length: int, beam_size: int
    ) -> Callable[[np.ndarray], np.ndarray]:
        def translate(source: np.ndarray) -> np.ndarray:
            # With several workers, each takes a part of the batch.
            part = -(-len(source) // workers) if workers > 1 else 0
            results = translator.translate_batch(
                [[pieces[i] for i in row] for row in source],
                max_batch_size=part,
                beam_size=beam_size,
                length_penalty=workload.ALPHA,
                min_decoding_length=length,
                max_decoding_length=length,
            )
            return np.array([result.hypotheses[0] for result in results])

        return translate

    workload.time_decoding(
        make_translate, options, "CTranslate2", ctranslate2.__version__
    )


if __name__ == "__main__":
    main()
