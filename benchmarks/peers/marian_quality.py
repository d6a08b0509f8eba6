"""Trains Hugging Face's Marian on PyTorch; see quality.py."""

import os

import marian
import numpy as np
import quality
import torch
import transformers
import workload
from torch.nn import functional


def main() -> None:
    """Trains and prints the result."""
    options = quality.parse_options(__doc__, "compiled", "eager")
    settings = options.settings
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(settings.seed)
    model = marian.build_model(settings.shape)
    size = settings.shape.vocab_size
    optimizer = torch.optim.Adam(
        model.parameters(),
        lr=1.0,  # which the schedule multiplies
        betas=(workload.BETA_1, workload.BETA_2),
        eps=workload.EPSILON,
        fused=True,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: settings.learning_rate(step + 1)
    )

    def compute_loss(
        source: torch.Tensor, target: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        logits = model(
            input_ids=source,
            attention_mask=(source != quality.PAD).long(),
            decoder_input_ids=target,
        ).logits
        return functional.cross_entropy(
            logits.flatten(0, 1),
            labels.flatten(),
            ignore_index=quality.PAD,
            # PyTorch spreads it over all tokens, the others over all but the
            # right one.
            label_smoothing=workload.LABEL_SMOOTHING * size / (size - 1),
        )

    train_loss = compute_loss
    if options.mode == "compiled":
        train_loss = torch.compile(compute_loss, dynamic=True)

    def step(batch: np.ndarray) -> None:
        optimizer.zero_grad(set_to_none=True)
        train_loss(*torch.from_numpy(batch).long()).backward()
        optimizer.step()
        schedule.step()

    @torch.no_grad()
    def check(batch: np.ndarray) -> float:
        model.eval()
        loss = compute_loss(*torch.from_numpy(batch).long())
        model.train()
        return float(loss)

    recorder = quality.Recorder(
        options,
        lambda: {name: x.numpy() for name, x in model.state_dict().items()},
        check,
    )
    quality.train(step, recorder)
    recorder.report(
        "HF Marian",
        f"{transformers.__version__}, PyTorch {torch.__version__}",
    )


if __name__ == "__main__":
    main()
