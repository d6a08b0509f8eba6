"""Measures the input pipeline alone: tokens a second, and peak memory.

python benchmarks/input_pipeline.py --pairs 10000 100000 1000000

For each size a corpus of that many lines, drawn from the embedded one, is
written to a temporary folder and read by a process of its own, in the batches
of the preset small. The tokens are those of the target, without padding. The
memory of a process that has only opened the corpus is taken off.
"""

import argparse
import itertools
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

_REPETITIONS = 5


def write_corpus(folder: pathlib.Path, pairs: int) -> None:
    """Writes `train.en`, `train.de` and a tokenizer; lines differ."""
    from keras_transformer import Tokenizer
    from keras_transformer.text import corpus

    known = corpus.load("train")
    draw = random.Random(0)
    with (
        open(folder / "train.en", "w", encoding="utf-8") as source,
        open(folder / "train.de", "w", encoding="utf-8") as target,
    ):
        for _ in range(pairs):
            chosen = [draw.choice(known) for _ in range(draw.randint(1, 4))]
            source.write(" ".join(english for english, _ in chosen) + "\n")
            target.write(" ".join(german for _, german in chosen) + "\n")
    texts = itertools.chain.from_iterable(known[:10_000])
    Tokenizer.train(texts, vocab_size=2_000).save(folder / "tokenizer.model")


def peak_kib() -> int:
    """Returns the peak memory of this process.

    That of `resource` begins with the peak of the process that started it.
    """
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+)", status)[1])


def measure(folder: str, seconds: float) -> dict:
    """Reads batches; returns tokens a second, each time, and memory in MiB."""
    import numpy as np

    from keras_transformer import Tokenizer
    from keras_transformer.train import open_corpus, training_batches

    data = open_corpus([folder], "en", "de")
    tokenizer = Tokenizer.load(f"{folder}/tokenizer.model")
    before = peak_kib()
    batches = iter(
        training_batches(
            data.pairs("train"),
            tokenizer,
            batch_tokens=4_096,
            max_length=128,
            seed=1,
        )
    )
    start = time.perf_counter()
    next(batches)
    first_batch = time.perf_counter() - start
    speeds = []
    for _ in range(_REPETITIONS):
        tokens, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            _, labels = next(batches)
            tokens += np.count_nonzero(labels)
        speeds.append(tokens / (time.perf_counter() - start))
    return {
        "tokens_per_second": speeds,
        "first_batch": first_batch,
        "mib": (peak_kib() - before) / 1024,
    }


def main() -> None:
    """Prints a table with a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--pairs", type=int, nargs="+", default=[10_000, 100_000, 1_000_000]
    )
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="a repetition"
    )
    parser.add_argument("--measure", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.seconds)))
        return
    print("| pairs | target tokens/s | first batch | peak memory |")
    print("|---|---|---|---|")
    for pairs in options.pairs:
        with tempfile.TemporaryDirectory() as folder:
            write_corpus(pathlib.Path(folder), pairs)
            command = [sys.executable, __file__, f"--measure={folder}"]
            done = subprocess.run(
                [*command, f"--seconds={options.seconds}"],
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
        result = json.loads(done.stdout.splitlines()[-1])
        median = statistics.median(result["tokens_per_second"])
        print(
            f"| {pairs:,} | {median:,.0f} | {result['first_batch']:.1f} s "
            f"| {result['mib']:,.0f} MiB |",
            flush=True,
        )


if __name__ == "__main__":
    main()
