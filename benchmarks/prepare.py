"""Measures how long `train` takes to its first batch, and the order of a pass.

python benchmarks/prepare.py --data FOLDER --source en --target de

A corpus of two million lines is written to a temporary folder, sorted by
length. Each joins one to four random lines of an original corpus, the bundled
one or FOLDER, and begins with its number, so that the lines of a batch are
known. A process each starts a run on it, which prepares the corpus, resumes
the run in the middle of a pass, and reads a whole pass; nothing is trained. The
first batch is timed from the start of `train`, without TensorFlow's import.
"""

import argparse
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from typing import Any

from input_pipeline import peak_kib

from keras_transformer.support.startup import start_keras

_BATCH_TOKENS, _MAX_LENGTH = 4_096, 128
# The number of a line and its space have at most this many tokens.
_NUMBER_TOKENS = 9


def read_pairs(
    options: argparse.Namespace,
) -> tuple[list[tuple[str, str]], int]:
    """Returns the original pairs and a vocabulary size that fits them."""
    from keras_transformer.train import open_corpus

    if options.data is None:
        corpus, vocab_size = open_corpus(["embedded"]), 2_000
    else:
        corpus = open_corpus([options.data], options.source, options.target)
        vocab_size = 8_000
    return list(corpus.pairs("train")), vocab_size


def write_corpus(
    folder: pathlib.Path, original: list[tuple[str, str]], pairs: int
) -> None:
    """Writes `train.en` and `train.de`, from the shortest source on."""
    generator = random.Random(0)
    lines = []
    for _ in range(pairs):
        chosen = generator.choices(original, k=generator.randint(1, 4))
        lines.append(
            tuple(" ".join(side) for side in zip(*chosen, strict=True))
        )
    lines.sort(key=lambda pair: len(pair[0]))
    for side, code in enumerate(("en", "de")):
        with open(folder / f"train.{code}", "w", encoding="utf-8") as file:
            file.writelines(f"{n} {p[side]}\n" for n, p in enumerate(lines))


def open_batches(folder: pathlib.Path, run: str, start: int = 0) -> Any:
    """Returns the batches of a run, new or resumed, as `train` makes them."""
    from keras_transformer.train import fitting, open_corpus, train
    from keras_transformer.train.data.batching import Batches

    opened = []
    fitting.fit = lambda run, data, *_: opened.append(data)
    recipe = dict(
        vocab_size=int(os.environ["VOCAB_SIZE"]),
        max_length=_MAX_LENGTH,
        batch_tokens=_BATCH_TOKENS,
    )
    corpus = open_corpus([str(folder / "texts")], "en", "de")
    train(corpus, folder / run, "small", recipe)
    (data,) = opened
    return Batches(
        data.shards,
        data.tokenizer,
        batch_tokens=_BATCH_TOKENS,
        max_length=_MAX_LENGTH,
        seed=1,
        start=start,
    )


def time_first_batch(
    folder: pathlib.Path, run: str, start: str
) -> dict[str, float]:
    """Returns seconds until the first batch, and peak memory."""
    begin = time.perf_counter()
    open_batches(folder, run, int(start))[0]
    return {
        "seconds": time.perf_counter() - begin,
        "mib": peak_kib() / 1024,
    }


def read_pass(folder: pathlib.Path, run: str) -> dict[str, float]:
    """Reads a pass; returns its speed, its order and peak memory."""
    import numpy as np

    from keras_transformer import Tokenizer

    batches = open_batches(folder, run)
    tokenizer = Tokenizer.load(folder / run)
    size = batches.count_batches_of_pass()
    places, tokens = [], 0
    start = time.perf_counter()
    for inputs, labels in itertools.islice(batches, size):
        tokens += np.count_nonzero(labels)
        for row in inputs["source"][:, :_NUMBER_TOKENS]:
            places.append(int(tokenizer.decode(row).split()[0]))
    seconds = time.perf_counter() - start
    places = np.array(places) / max(places)
    draws = np.arange(places.size)
    tenth = places.size // 10
    return {
        "tokens_per_second": tokens / seconds,
        "correlation": float(np.corrcoef(places, draws)[0, 1]),
        "first_tenth": float(places[:tenth].mean()),
        "distinct": np.unique(places).size / places.size,
        "mib": peak_kib() / 1024,
        "batches": size,
    }


def run_in_process(vocab_size: int, *arguments: object) -> dict[str, Any]:
    """Returns the result of this program with other arguments."""
    done = subprocess.run(
        [sys.executable, __file__, *map(str, arguments)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "VOCAB_SIZE": str(vocab_size)},
    )
    result = json.loads(done.stdout.splitlines()[-1])
    print(*arguments, result, file=sys.stderr)
    return result


def main() -> None:
    """Prints a table with one column for texts and one for ids."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=2_000_000)
    parser.add_argument("--data", metavar="FOLDER", help="original corpus")
    parser.add_argument("--source", help="its source language")
    parser.add_argument("--target", help="its target language")
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    start_keras()
    if options.measure:
        name, folder, *arguments = options.measure
        measure = {"first": time_first_batch, "pass": read_pass}[name]
        print(json.dumps(measure(pathlib.Path(folder), *arguments)))
        return
    original, vocab_size = read_pairs(options)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "texts").mkdir()
        write_corpus(folder / "texts", original, options.pairs)
        print_table(options.pairs, folder, vocab_size)


def size_of(folder: pathlib.Path, pattern: str) -> float:
    """Returns megabytes."""
    return sum(file.stat().st_size for file in folder.glob(pattern)) / 1e6


def print_table(pairs: int, folder: pathlib.Path, vocab_size: int) -> None:
    """Measures and prints."""

    def measure(*arguments: object) -> dict[str, Any]:
        return run_in_process(vocab_size, "--measure", *arguments)

    first = measure("first", folder, "run", 0)
    whole = measure("pass", folder, "run")
    resumed = measure("first", folder, "run", whole["batches"] // 2)
    texts = size_of(folder, "texts/*")
    ids = size_of(folder, "run/data/*")
    print(
        f"| {pairs:,} pairs | |\n|---|---|\n"
        f"| size on disk | {texts:,.0f} MB, prepared {ids:,.0f} MB |\n"
        f"| first batch of a new run | {first['seconds']:,.1f} s |\n"
        f"| its peak memory | {first['mib']:,.0f} MiB |\n"
        f"| resumed in the middle of a pass | {resumed['seconds']:,.1f} s |\n"
        f"| peak memory of a pass | {whole['mib']:,.0f} MiB |\n"
        f"| target tokens/s | {whole['tokens_per_second']:,.0f} |\n"
        f"| lines read once | {whole['distinct']:.3%} |\n"
        "| place in the file and place in the pass, correlation "
        f"| {whole['correlation']:.3f} |\n"
        "| mean place in the file of the first tenth of a pass "
        f"| {whole['first_tenth']:.3f} |"
    )


if __name__ == "__main__":
    main()
