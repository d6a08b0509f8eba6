"""Decoding speed of Hugging Face's Marian on PyTorch.

`python marian_decoding.py --shape small` in an environment with PyTorch and
transformers
"""

import os
from collections.abc import Callable

import numpy as np
import torch
import transformers
import workload
from marian import build_model


def main() -> None:
    """Decodes and prints the results."""
    options = workload.parse_decoding_options(
        __doc__, modes=["eager"], dtypes=["float32", "bfloat16"]
    )
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(0)
    model = build_model(options.shape).eval()
    model = model.to(getattr(torch, options.dtype))

    def make_translate(length: int) -> Callable[[np.ndarray], np.ndarray]:
        @torch.inference_mode()
        def translate(source: np.ndarray) -> np.ndarray:
            source = torch.from_numpy(source).long()
            found = model.generate(
                input_ids=source,
                attention_mask=torch.ones_like(source),
                num_beams=workload.BEAM_SIZE,
                length_penalty=workload.ALPHA,
                do_sample=False,
                use_cache=True,
                min_new_tokens=length,
                max_new_tokens=length,
            )
            return found[:, 1:].numpy()  # without the start token

        return translate

    workload.time_decoding(
        make_translate,
        options,
        "HF Marian",
        f"{transformers.__version__}, PyTorch {torch.__version__}",
    )


if __name__ == "__main__":
    main()
