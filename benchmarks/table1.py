"""Measures Table 1 of the paper: time per layer over length and over width.

KERAS_BACKEND=tensorflow python benchmarks/table1.py --plot docs/table1.png

One forward pass of one layer of each type, for one input in float32. As in
the table, attention is counted without its projections: equation 1 with one
head, in which queries, keys and values are the input. The recurrent layer is
`keras.layers.SimpleRNN`, the convolution `keras.layers.Conv1D` without
stride. Time is the median of five; a growth exponent is the slope of the line
that fits log(time) over log(size) best, over the largest sizes. Works with
any backend of Keras.
"""

import argparse
import math
import pathlib
import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from compiled import compile_step, device

from keras_transformer.layers import (
    MultiHeadAttention,
    restricted_dot_product_attention,
    scaled_dot_product_attention,
)
from keras_transformer.support.files import write_json

_LENGTHS = [512, 1024, 2048, 4096, 8192]
_WIDTHS = [128, 256, 512, 1024, 2048]
_FITTED = 3  # sizes that an exponent is fitted to
_HEADS = 8


class Type(NamedTuple):
    """A row of Table 1."""

    complexity: str
    exponents: tuple[int, int] | None  # of n and of d
    operations: str  # sequential ones
    path: str  # maximum path length


TYPES = {
    "self-attention": Type("n² d", (2, 1), "1", "1"),
    "recurrent": Type("n d²", (1, 2), "n", "n"),
    "convolutional": Type("k n d²", (1, 2), "1", "log_k(n)"),
    "self-attention (restricted)": Type("r n d", (1, 1), "1", "n / r"),
    f"multi-head attention, {_HEADS} heads": Type(
        "n² d + n d²", None, "1", "1"
    ),
}


def make(
    name: str, width: int, options: argparse.Namespace
) -> tuple[Callable[[Any], Any], list]:
    """Returns a layer of a type as a function, and its weights."""

    def self_attention(x: Any) -> Any:
        x = x[:, None]  # [1, 1, n, d]
        return scaled_dot_product_attention(x, x, x)[0]

    def restricted(x: Any) -> Any:
        x = x[:, None]
        return restricted_dot_product_attention(x, x, x, options.window)

    if name == "self-attention":
        return self_attention, []
    if name == "self-attention (restricted)":
        return restricted, []
    shape = (1, None, width)
    if name == "recurrent":
        layer = keras.layers.SimpleRNN(width, return_sequences=True)
    elif name == "convolutional":
        layer = keras.layers.Conv1D(width, options.kernel, padding="same")
    else:
        attention = MultiHeadAttention(_HEADS)
        attention.build(shape, shape)
        return lambda x: attention(x, x), attention.weights
    layer.build(shape)
    return layer, layer.weights


def seconds(
    name: str, length: int, width: int, options: argparse.Namespace
) -> float:
    """Returns the time of a forward pass."""
    function, weights = make(name, width, options)
    x = keras.random.normal((1, length, width), seed=1)
    return compile_step(function, x, weights).seconds()


def exponent(sizes: list[int], times: list[float]) -> float:
    """Returns p such that time grows like size^p at the largest sizes."""
    sizes, times = sizes[-_FITTED:], times[-_FITTED:]
    x, y = (list(map(math.log, values)) for values in (sizes, times))
    return statistics.linear_regression(x, y).slope


def table(results: dict) -> str:
    """Returns the measured exponents beside the table's, in Markdown."""
    lines = [
        "| layer type | complexity per layer | growth with n | growth with d "
        "| sequential operations | maximum path length |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in TYPES.items():
        cells = []
        for axis, sizes, times in zip(
            "nd",
            (results["lengths"], results["widths"]),
            (results["over_length"][name], results["over_width"][name]),
            strict=True,
        ):
            cell = f"{axis}^{exponent(sizes, times):.2f}"
            if row.exponents:
                cell += f" (paper: {row.exponents['nd'.index(axis)]})"
            cells.append(cell)
        lines.append(
            f"| {name} | O({row.complexity}) | {' | '.join(cells)} "
            f"| O({row.operations}) | O({row.path}) |"
        )
    return "\n".join(lines)


def times_table(results: dict) -> str:
    """Returns all times in milliseconds, in Markdown."""
    lengths, widths = results["lengths"], results["widths"]
    head = [f"n = {n:,}" for n in lengths] + [f"d = {d:,}" for d in widths]
    lines = [f"| ms | {' | '.join(head)} |", "|---" * (len(head) + 1) + "|"]
    for name in TYPES:
        times = results["over_length"][name] + results["over_width"][name]
        cells = [f"{1000 * time:,.2f}" for time in times]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def plot(results: dict, path: pathlib.Path) -> None:
    """Plots all times, over the length and over the width."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for ax, sizes, key, label, fixed in (
        (axes[0], "lengths", "over_length", "length n", "width"),
        (axes[1], "widths", "over_width", "width d", "length"),
    ):
        for name, times in results[key].items():
            slope = exponent(results[sizes], times)
            ax.loglog(
                results[sizes],
                [1000 * time for time in times],
                marker="o",
                label=f"{name}: {slope:.2f}",
            )
        ax.set_xlabel(f"{label}, at {fixed} {results[fixed]:,}")
        ax.set_xticks(results[sizes], [f"{size:,}" for size in results[sizes]])
        ax.minorticks_off()
        ax.grid(alpha=0.3)
        # Above the axes, where there are no points.
        ax.legend(
            title="growth exponent",
            fontsize=8,
            loc="lower left",
            bbox_to_anchor=(0, 1),
            frameon=False,
        )
    axes[0].set_ylabel("milliseconds per forward pass")
    figure.savefig(path, dpi=120)


def main() -> None:
    """Measures, prints two tables, and writes the JSON and the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", nargs="+", type=int, default=_LENGTHS)
    parser.add_argument("--widths", nargs="+", type=int, default=_WIDTHS)
    parser.add_argument("--length", type=int, default=512, help="of widths")
    parser.add_argument("--width", type=int, default=256, help="of lengths")
    parser.add_argument("--window", type=int, default=64, help="r")
    parser.add_argument("--kernel", type=int, default=3, help="k")
    parser.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path("runs/table1.json")
    )
    parser.add_argument("--plot", type=pathlib.Path, help="PNG of the times")
    options = parser.parse_args()
    results = {
        "backend": keras.backend.backend(),
        "device": device(),
        "lengths": options.lengths,
        "widths": options.widths,
        "length": options.length,
        "width": options.width,
        "window": options.window,
        "kernel": options.kernel,
        "over_length": {
            name: [
                seconds(name, n, options.width, options)
                for n in options.lengths
            ]
            for name in TYPES
        },
        "over_width": {
            name: [
                seconds(name, options.length, d, options)
                for d in options.widths
            ]
            for name in TYPES
        },
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_json(options.output, results)
    print(
        f"{results['backend']}, {results['device']}, k = {options.kernel}, "
        f"r = {options.window}, exponents of the {_FITTED} largest sizes: "
        f"n at d = {options.width}, d at n = {options.length}\n"
    )
    print(table(results) + "\n\n" + times_table(results))
    if options.plot:
        plot(results, options.plot)


if __name__ == "__main__":
    main()
