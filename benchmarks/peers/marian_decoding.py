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


def main() -> None:
    """Decodes and prints the results."""
    options = workload.parse_decoding_options(
        __doc__,
        modes=["eager"],
        dtypes=["float32", "bfloat16"],
        needs_model=True,
    )
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    model = transformers.MarianMTModel.from_pretrained(
        options.model, dtype=getattr(torch, options.dtype)
    ).eval()
    # The search of the workload alone.
    ids = ("pad_token_id", "eos_token_id", "decoder_start_token_id")
    known = model.generation_config
    model.generation_config = transformers.GenerationConfig(
        **{name: getattr(known, name) for name in ids}
    )

    def make_translate(
        length: int, beam_size: int
    ) -> Callable[[np.ndarray], np.ndarray]:
        @torch.inference_mode()
        def translate(source: np.ndarray) -> np.ndarray:
            source = torch.from_numpy(source).long()
            found = model.generate(
                input_ids=source,
                attention_mask=torch.ones_like(source),
                num_beams=beam_size,
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
