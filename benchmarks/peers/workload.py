"""What every system computes, and how it reports. Needs NumPy only.

Training: a step is forward pass, loss, backward pass and an update by
Adam(0.9, 0.98, 1e-9).
Every system is an encoder-decoder with one matrix for both embeddings and the
output, sinusoidal positions, post-norm, ReLU, dropout of 0.1 on embeddings
and residuals, and label smoothing of 0.1. The ids are random, without
padding, and the same in every step, so that the loss must decrease.

Decoding: from ids of sources to ids of translations, with random weights, beam
4 and greedily. Every source has 32 tokens, and every translation is forced to
have 32, the end token included.
"""

import argparse
import dataclasses
import itertools
import json
import pathlib
import re
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

DROPOUT = 0.1
LABEL_SMOOTHING = 0.1
LEARNING_RATE = 1e-4
BETA_1, BETA_2, EPSILON = 0.9, 0.98, 1e-9
BEAM_SIZES, ALPHA = (4, 1), 0.6
FIRST_ID = 4  # ids 0 to 3 are padding, unknown, start and end


@dataclasses.dataclass(frozen=True)
class Shape:
    """An architecture and its batch: `sentences` of `length` per side."""

    vocab_size: int
    num_layers: int
    d_model: int
    d_ff: int
    num_heads: int
    sentences: int
    length: int | None = 32  # None: any
    dropout: float = DROPOUT
    # Whether what Marian's models have is there: biases of all projections
    # and of the logits, and the activation swish.
    biases: bool = False


SHAPES = {
    "small": Shape(8_000, 3, 256, 1_024, 4, sentences=64),
    "base": Shape(37_000, 6, 512, 2_048, 8, sentences=16),
}
SHAPES |= {
    f"{name}-biases": dataclasses.replace(shape, biases=True)
    for name, shape in SHAPES.items()
}


def parse_options(
    description: str,
    modes: Iterable[str],
    dtypes: Iterable[str] = ("float32",),
) -> argparse.Namespace:
    """Returns the options of training; the first mode and dtype are defaults.

    `shape` is replaced by its `Shape`, whose name is in `shape_name`.
    """
    parser = _parser(description, modes, dtypes)
    parser.add_argument("--steps", type=int, default=10, help="per repetition")
    return _parse(parser)


def parse_decoding_options(
    description: str,
    modes: Iterable[str],
    dtypes: Iterable[str] = ("float32",),
    needs_model: bool = False,
) -> argparse.Namespace:
    """Returns the options of decoding; see `parse_options`."""
    parser = _parser(description, modes, dtypes)
    if needs_model:
        parser.add_argument("--model", required=True, help="exported model")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--lengths", type=int, nargs="+", default=[32])
    parser.add_argument("--beam-sizes", type=int, nargs="+", default=BEAM_SIZES)
    parser.add_argument(
        "--calls", type=int, default=4, help="per repetition at batch 1"
    )
    return _parse(parser)


def _parser(
    description: str, modes: Iterable[str], dtypes: Iterable[str]
) -> argparse.ArgumentParser:
    modes, dtypes = list(modes), list(dtypes)
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--mode", choices=modes, default=modes[0])
    parser.add_argument("--dtype", choices=dtypes, default=dtypes[0])
    parser.add_argument("--repetitions", type=int, default=5)
    return parser


def _parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    options = parser.parse_args()
    options.shape_name, options.shape = options.shape, SHAPES[options.shape]
    return options


def random_ids(shape: Shape) -> np.ndarray:
    """Returns source and target, int32 `[2, sentences, length]`."""
    return np.random.default_rng(0).integers(
        FIRST_ID,
        shape.vocab_size,
        (2, shape.sentences, shape.length),
        "int32",
    )


def time_steps(
    step: Callable[[], float], options: argparse.Namespace
) -> tuple[list[float], list[float]]:
    """Runs a repetition to warm up, and then those that count.

    Args:
        step: Trains on the batch and returns the loss once it is known.
        options: From `parse_options`.

    Returns:
        The seconds of each repetition that counts, and the last loss of every
        repetition, including the one that warms up.
    """
    seconds, losses = [], []
    for _ in range(1 + options.repetitions):
        start = time.perf_counter()
        for _ in range(options.steps):
            loss = step()
        seconds.append(time.perf_counter() - start)
        losses.append(float(loss))
    return seconds[1:], losses


def report(
    options: argparse.Namespace,
    system: str,
    version: str,
    parameters: int,
    seconds: list[float],
    losses: list[float],
) -> None:
    """Prints the result as one line of JSON.

    Args:
        options: From `parse_options`.
        system: Name of the system.
        version: Its version and its engine's.
        parameters: Number of trainable parameters.
        seconds: Of each repetition.
        losses: One per repetition, that of the warm-up first.
    """
    tokens = options.steps * options.shape.sentences * options.shape.length
    _print_result(
        options,
        system=system,
        version=version,
        parameters=parameters,
        losses=[round(loss, 4) for loss in losses],
        tokens_per_second=[round(tokens / s, 1) for s in seconds],
    )


def time_decoding(
    make_translate: Callable[[int, int], Callable[[np.ndarray], np.ndarray]],
    options: argparse.Namespace,
    system: str,
    version: str,
) -> None:
    """Measures every size and length, and prints a line of JSON of each.

    Args:
        make_translate: Returns, for a length and a beam size, a function that
            maps sources `[batch, 32]` to the best translations, `[batch,
            length]`.
        options: From `parse_decoding_options`.
        system: Name of the system.
        version: Its version and its engine's.
    """
    shape = options.shape
    for length, beam_size in itertools.product(
        options.lengths, options.beam_sizes
    ):
        translate = make_translate(length, beam_size)
        for batch in options.batches:
            source = np.random.default_rng(0).integers(
                FIRST_ID, shape.vocab_size, (batch, shape.length), "int32"
            )
            for _ in range(2):
                found = np.asarray(translate(source))
                if found.shape != (batch, length):
                    raise ValueError(
                        f"{system} must return {length} tokens for each of "
                        f"{batch} sources. Received: shape {found.shape}"
                    )
            calls = max(1, options.calls // batch)
            seconds, latencies = [], []
            for _ in range(options.repetitions):
                for _ in range(calls):
                    start = time.perf_counter()
                    translate(source)
                    latencies.append(time.perf_counter() - start)
                seconds.append(sum(latencies[-calls:]))
            tokens = calls * batch * length
            _print_result(
                options,
                system=system,
                version=version,
                batch=batch,
                length=length,
                beam_size=beam_size,
                tokens_per_second=[round(tokens / s, 2) for s in seconds],
                milliseconds=[round(1e3 * s, 2) for s in latencies],
            )


def _print_result(options: argparse.Namespace, **values: Any) -> None:
    """Prints a measurement as a line of JSON."""
    result = {
        "mode": options.mode,
        "shape": options.shape_name,
        "dtype": options.dtype,
        **values,
        "peak_rss_mib": peak_rss_mib(),
    }
    print(json.dumps(result), flush=True)


def peak_rss_mib() -> int:
    """Returns the peak memory of this process."""
    # That of `resource` starts with the peak of the parent process.
    status = pathlib.Path("/proc/self/status").read_text()
    return round(int(re.search(r"VmHWM:\s*(\d+)", status)[1]) / 1024)
