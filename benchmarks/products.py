"""Measures the matrix products of a training step alone.

python benchmarks/products.py --shapes small base

The products are those of a step of training_throughput.py, each with its two
gradients. All other work of a step comes in addition, so that they limit the
speed of training.
"""

import argparse
import collections
import statistics
import time

from peers.workload import SHAPES, Shape

from keras_transformer.support.startup import start_keras

_REPETITIONS = 9


def products(shape: Shape) -> collections.Counter:
    """Returns the number of each (batch, rows, inner, columns) per forward."""
    d_model, heads, length = shape.d_model, shape.num_heads, shape.length
    tokens, pairs = shape.sentences * length, shape.sentences * heads
    projection = (1, tokens, d_model, d_model)
    scores = (pairs, length, d_model // heads, length)
    mixed = (pairs, length, length, d_model // heads)
    inner = (1, tokens, d_model, shape.d_ff)
    outer = (1, tokens, shape.d_ff, d_model)
    found: collections.Counter = collections.Counter()
    # An encoder layer attends once, a decoder layer twice.
    for attentions in (1, 2):
        for product, times in (
            (projection, 4 * attentions),
            (scores, attentions),
            (mixed, attentions),
            (inner, 1),
            (outer, 1),
        ):
            found[product] += times * shape.num_layers
    found[1, tokens, d_model, shape.vocab_size] += 1
    return found


def seconds_of(product: tuple[int, int, int, int], dtype: str) -> float:
    """Returns the median time of a product and its two gradients."""
    import tensorflow as tf

    batch, rows, inner, columns = product

    def normal(*shape: int) -> tf.Tensor:
        outer = (batch,) if batch > 1 else ()
        return tf.cast(tf.random.normal(outer + shape), dtype)

    left, right = normal(rows, inner), normal(inner, columns)
    above = normal(rows, columns)
    times = []
    for _ in range(1 + _REPETITIONS):
        start = time.perf_counter()
        tf.matmul(left, right)
        tf.matmul(above, right, transpose_b=True)
        # Eager operations on a CPU are done when they return.
        tf.matmul(left, above, transpose_a=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def main() -> None:
    """Prints a table with one row per shape and dtype."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--shapes", nargs="+", default=["small", "base"], choices=SHAPES
    )
    options = parser.parse_args()
    start_keras()
    print("| shape | dtype | products of a step | GFLOP/s | target tokens/s |")
    print("|---|---|---|---|---|")
    for name in options.shapes:
        shape = SHAPES[name]
        found = products(shape)
        work = sum(6 * b * m * k * n * c for (b, m, k, n), c in found.items())
        for dtype in ("float32", "bfloat16"):
            seconds = sum(
                times * seconds_of(product, dtype)
                for product, times in found.items()
            )
            print(
                f"| {name} | {dtype} | {1000 * seconds:,.0f} ms "
                f"| {work / seconds / 1e9:,.0f} "
                f"| {shape.sentences * shape.length / seconds:,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
