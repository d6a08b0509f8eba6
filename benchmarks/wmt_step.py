"""Operations, memory and time of a training step on WMT 14, per device.

python benchmarks/wmt_step.py --devices 8

A step of the paper has 25,000 source and 25,000 target tokens. This trains
on the share of one device, with random ids, and prints a Markdown table: the
operations are counted, memory and time are those of this machine. Each row is
a process of its own.
"""

import argparse
import os
import resource
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

_LENGTH = 28  # tokens per sentence, about the mean of WMT 14 English-German
_STEPS = 3
_ROWS = [
    (preset, dtype)
    for preset in ("base", "big")
    for dtype in ("float32", "mixed_bfloat16")
]


def measure(preset: str, dtype: str, tokens: int) -> str:
    """Trains for some steps, and returns a row of the table."""
    import numpy as np
    from table2 import training_flops

    import keras_transformer as kt

    config = kt.TransformerConfig.from_preset(preset)
    pairs = tokens // (2 * _LENGTH)
    model = kt.Transformer(config, dtype=dtype)
    model.compile(
        kt.optimizers.adam(config.d_model, 4_000),
        kt.LabelSmoothedCrossEntropy(0.1),
    )
    shape = (pairs, _LENGTH)
    ids = np.random.default_rng(0).integers(4, config.vocab_size, shape)
    inputs = {"source": ids, "target": ids}
    before = _peak()
    seconds = []
    for _ in range(_STEPS):
        start = time.perf_counter()
        model.fit(inputs, ids, batch_size=pairs, verbose=0)
        seconds.append(time.perf_counter() - start)
    flops = pairs * training_flops(config, _LENGTH, _LENGTH)
    return (
        f"| {preset} | {dtype} | {config.num_parameters / 1e6:.0f}M "
        f"| {flops / 1e12:.2f}e12 | {_peak() - before:,.0f} "
        f"| {min(seconds):.1f} | {flops / min(seconds) / 1e9:,.0f} |"
    )


def _peak() -> float:
    """Returns the largest memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Prints the table, or a row of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--row", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    tokens = 50_000 // options.devices
    if options.row:
        print(measure(*options.row, tokens))
        return
    print(f"{tokens:,} tokens, one of {options.devices} devices")
    print(
        "| model | dtype | parameters | operations per step | memory, MiB "
        "| seconds per step | GFLOP/s |\n|---|---|---|---|---|---|---|"
    )
    for row in _ROWS:
        arguments = [f"--devices={options.devices}", "--row", *row]
        subprocess.run([sys.executable, __file__, *arguments], check=True)


if __name__ == "__main__":
    main()
