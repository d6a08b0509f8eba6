"""Compares self-attention that is restricted to a window with full one.

KERAS_BACKEND=tensorflow python benchmarks/restricted_attention.py

One step is forward and backward of one layer with 8 heads, of width 512, for
one input of n positions in float32. Each row of the table is measured by two
processes, one after the other, whose time is the median of five and whose
memory is `Step.peak_memory` of compiled.py. Works with any backend of Keras.
"""

import argparse
import json
import os
import subprocess
import sys

_LENGTHS = [128, 256, 512, 1024, 2048, 4096]
_KINDS = ("full", "restricted")


def measure(kind: str, length: int, options: argparse.Namespace) -> dict:
    """Returns time and memory of one step, of a layer of one kind."""
    import keras
    from compiled import compile_step, device

    from keras_transformer.layers import (
        MultiHeadAttention,
        RestrictedSelfAttention,
    )

    if kind == "full":
        layer = MultiHeadAttention(options.heads)
    else:
        layer = RestrictedSelfAttention(options.heads, options.window)
    shape = (1, length, options.width)
    layer.build(shape, shape)
    x = keras.random.normal(shape, seed=1)

    def attend(x: object) -> object:
        return layer(x, x)

    if keras.backend.backend() != "jax":
        # The libraries that a step loads are not memory of the step.
        small = compile_step(attend, x[:, :32], layer.weights, gradients=True)
        small.run()
    step = compile_step(attend, x, layer.weights, gradients=True)
    memory = step.peak_memory()
    return {
        "backend": keras.backend.backend(),
        "device": device(),
        "seconds": step.seconds(),
        "mib": memory,
    }


def measured(kind: str, length: int) -> dict:
    """Returns what `measure` returns, in a new process."""
    variables = {
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_ENABLE_ONEDNN_OPTS": "1",
        # The processes of a row take turns on a GPU.
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    done = subprocess.run(
        [sys.executable, *sys.argv, "--only", kind, str(length)],
        env={**variables, **os.environ},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Prints a table with one row per length."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", nargs="+", type=int, default=_LENGTHS)
    parser.add_argument("--window", type=int, default=128, help="r")
    parser.add_argument("--width", type=int, default=512, help="d_model")
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--only", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        kind, length = options.only
        print(json.dumps(measure(kind, int(length), options)))
        return
    rows = []
    for length in options.lengths:
        full, restricted = (measured(kind, length) for kind in _KINDS)
        ratio = full["seconds"] / restricted["seconds"]
        row = f"| {length:,} "
        for name, digits, factor in (("seconds", 1, 1000), ("mib", 0, 1)):
            for point in (full, restricted):
                value = point[name]
                shown = (
                    "-" if value is None else f"{factor * value:,.{digits}f}"
                )
                row += f"| {shown} "
        rows.append(row + f"| {ratio:.2f} |")
        print(rows[-1], file=sys.stderr, flush=True)
    print(
        f"\nr = {options.window}, {full['backend']}, {full['device']}\n\n"
        "| n | full ms | restricted ms | full MiB | restricted MiB "
        "| full / restricted time |\n|---|---|---|---|---|---|"
    )
    print("\n".join(rows))


if __name__ == "__main__":
    main()
