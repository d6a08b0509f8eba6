"""Training throughput of Hugging Face's Marian on PyTorch.

`python marian.py --shape small --steps 10` in an environment with PyTorch and
transformers

Its projections have biases; ours have none.
"""

import argparse
import os
from collections.abc import Callable

import torch
import transformers
import workload
from torch.nn import functional


def build_model(shape: workload.Shape) -> transformers.MarianMTModel:
    """Returns the model, ready for training."""
    config = transformers.MarianConfig(
        vocab_size=shape.vocab_size,
        d_model=shape.d_model,
        encoder_layers=shape.num_layers,
        decoder_layers=shape.num_layers,
        encoder_attention_heads=shape.num_heads,
        decoder_attention_heads=shape.num_heads,
        encoder_ffn_dim=shape.d_ff,
        decoder_ffn_dim=shape.d_ff,
        activation_function="relu",
        dropout=shape.dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
        init_std=shape.d_model**-0.5,
        max_position_embeddings=256,
        pad_token_id=0,
        decoder_start_token_id=2,
        eos_token_id=3,
        use_cache=False,
    )
    return transformers.MarianMTModel(config).train()


def make_step(
    model: transformers.MarianMTModel, options: argparse.Namespace
) -> Callable[[], torch.Tensor]:
    """Returns a function that trains on the batch and returns the loss."""
    ids = workload.random_ids(options.shape)
    source, target = torch.from_numpy(ids).long()
    optimizer = torch.optim.Adam(
        model.parameters(),
        lr=workload.LEARNING_RATE,
        betas=(workload.BETA_1, workload.BETA_2),
        eps=workload.EPSILON,
        fused=True,
    )

    def compute_loss() -> torch.Tensor:
        logits = model(input_ids=source, decoder_input_ids=target).logits
        return functional.cross_entropy(
            logits.flatten(0, 1).float(),
            target.flatten(),
            label_smoothing=workload.LABEL_SMOOTHING,
        )

    if options.mode == "compiled":
        compute_loss = torch.compile(compute_loss)
    bfloat16 = options.dtype == "mixed_bfloat16"

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            loss = compute_loss()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def main() -> None:
    """Trains and prints the result."""
    options = workload.parse_options(
        __doc__,
        modes=["eager", "compiled"],
        dtypes=["float32", "mixed_bfloat16"],
    )
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    model = build_model(options.shape)
    seconds, losses = workload.time_steps(make_step(model, options), options)
    workload.report(
        options,
        "HF Marian",
        f"{transformers.__version__}, PyTorch {torch.__version__}",
        sum(p.numel() for p in model.parameters() if p.requires_grad),
        seconds,
        losses,
    )


if __name__ == "__main__":
    main()
