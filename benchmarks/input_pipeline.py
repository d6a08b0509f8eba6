"""Measures batches of texts in memory: tokens per second and peak memory.

python benchmarks/input_pipeline.py --pairs 10000 100000 1000000

For each size a corpus with that many lines is written to a temporary folder.
One process trains its tokenizer, a second one reads it in the batches of the
preset small. A line joins one to four random lines of an original corpus, so
that lines differ. The original is the bundled corpus, or FOLDER with --data
FOLDER --source en --target de: real text fills a vocabulary of 8,000. Tokens
are those of the target, without padding.
"""

import argparse
import json
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

from keras_transformer.support.startup import start_keras

_REPETITIONS = 5


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
    """Writes `train.en` and `train.de`."""
    generator = random.Random(0)
    with (
        open(folder / "train.en", "w", encoding="utf-8") as source,
        open(folder / "train.de", "w", encoding="utf-8") as target,
    ):
        for _ in range(pairs):
            chosen = generator.choices(original, k=generator.randint(1, 4))
            source.write(" ".join(pair[0] for pair in chosen) + "\n")
            target.write(" ".join(pair[1] for pair in chosen) + "\n")


def peak_kib() -> int:
    """Returns the peak memory of this process.

    The value of `resource` includes the peak of the parent process.
    """
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+)", status)[1])


def train_tokenizer(folder: str, vocab_size: int) -> dict:
    """Writes the tokenizer of a corpus; returns seconds and peak memory."""
    from keras_transformer import Tokenizer
    from keras_transformer.train import open_corpus

    start = time.perf_counter()
    texts = open_corpus([folder], "en", "de").texts("train")
    Tokenizer.train(texts, vocab_size).save_files(folder)
    return {"seconds": time.perf_counter() - start, "mib": peak_kib() / 1024}


def read_batches(folder: str, seconds: float) -> dict:
    """Reads batches repeatedly; returns tokens per second and peak memory.

    Memory is in MiB, at the end and before the first batch was requested.
    """
    import numpy as np

    from keras_transformer import Tokenizer
    from keras_transformer.train import open_corpus, training_batches

    corpus = open_corpus([folder], "en", "de")
    tokenizer = Tokenizer.load(folder)
    before = peak_kib()
    batches = iter(
        training_batches(
            corpus.pairs("train"),
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
        "mib": peak_kib() / 1024,
        "mib_before": before / 1024,
    }


def run_in_process(*arguments: str) -> dict:
    """Returns the result of this program with other arguments."""
    done = subprocess.run(
        [sys.executable, __file__, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Prints a table with one row per size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--pairs", type=int, nargs="+", default=[10_000, 100_000, 1_000_000]
    )
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="per repetition"
    )
    parser.add_argument("--data", metavar="FOLDER", help="original corpus")
    parser.add_argument("--source", help="its source language")
    parser.add_argument("--target", help="its target language")
    parser.add_argument("--train-tokenizer", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--read-batches", help=argparse.SUPPRESS)
    options = parser.parse_args()
    start_keras()
    if options.train_tokenizer:
        folder, vocab_size = options.train_tokenizer
        print(json.dumps(train_tokenizer(folder, int(vocab_size))))
        return
    if options.read_batches:
        print(json.dumps(read_batches(options.read_batches, options.seconds)))
        return
    original, vocab_size = read_pairs(options)
    print(
        "| pairs | target tokens/s | first batch | peak memory "
        "| before the first batch | tokenizer trained in | peak memory |"
    )
    print("|---|---|---|---|---|---|---|")
    for pairs in options.pairs:
        with tempfile.TemporaryDirectory() as folder:
            write_corpus(pathlib.Path(folder), original, pairs)
            trained = run_in_process(
                "--train-tokenizer", folder, str(vocab_size)
            )
            result = run_in_process(
                "--read-batches", folder, "--seconds", str(options.seconds)
            )
        median = statistics.median(result["tokens_per_second"])
        print(
            f"| {pairs:,} | {median:,.0f} | {result['first_batch']:.1f} s "
            f"| {result['mib']:,.0f} MiB | {result['mib_before']:,.0f} MiB "
            f"| {trained['seconds']:.0f} s | {trained['mib']:,.0f} MiB |",
            flush=True,
        )


if __name__ == "__main__":
    main()
