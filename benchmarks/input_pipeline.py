"""Measures the input pipeline alone: tokens a second, and peak memory.

python benchmarks/input_pipeline.py --pairs 10000 100000 1000000

For each size a corpus of that many lines, drawn from another one, is written
to a temporary folder. A process of its own learns its tokenizer, and another
reads it in the batches of the preset small. A line is one to four of the
other's, so that lines differ. The tokens are those of the target, without
padding. The other corpus is the embedded one, or FOLDER with --data FOLDER
--source en --target de: real text fills a vocabulary of 8,000.
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

from keras_transformer.startup import import_tensorflow_quietly

_REPETITIONS = 5


def read_pairs(options: argparse.Namespace) -> tuple[list[tuple], int]:
    """Returns the pairs of the other corpus, and a fitting vocabulary size."""
    from keras_transformer.text import corpus
    from keras_transformer.train import open_corpus

    if options.data is None:
        return corpus.load("train"), 2_000
    other = open_corpus([options.data], options.source, options.target)
    pairs = other.pairs("train").as_numpy_iterator()
    return [(s.decode(), t.decode()) for s, t in pairs], 8_000


def write_corpus(folder: pathlib.Path, known: list[tuple], pairs: int) -> None:
    """Writes `train.en` and `train.de`."""
    draw = random.Random(0)
    with (
        open(folder / "train.en", "w", encoding="utf-8") as source,
        open(folder / "train.de", "w", encoding="utf-8") as target,
    ):
        for _ in range(pairs):
            chosen = [draw.choice(known) for _ in range(draw.randint(1, 4))]
            source.write(" ".join(pair[0] for pair in chosen) + "\n")
            target.write(" ".join(pair[1] for pair in chosen) + "\n")


def peak_kib() -> int:
    """Returns the peak memory of this process.

    That of `resource` begins with the peak of the process that started it.
    """
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+)", status)[1])


def learn(folder: str, vocab_size: int) -> dict:
    """Writes the tokenizer of a corpus; returns seconds and peak memory."""
    from keras_transformer import Tokenizer
    from keras_transformer.train import open_corpus

    start = time.perf_counter()
    texts = open_corpus([folder], "en", "de").texts("train")
    Tokenizer.train(texts, vocab_size).save(f"{folder}/tokenizer.model")
    return {"seconds": time.perf_counter() - start, "mib": peak_kib() / 1024}


def read(folder: str, seconds: float) -> dict:
    """Reads batches; returns tokens a second, each time, and peak memory.

    Memory is in MiB, of all and before the first batch was asked for.
    """
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
        "mib": peak_kib() / 1024,
        "opened_mib": before / 1024,
    }


def in_own_process(*arguments: str) -> dict:
    """Returns what this program prints with these arguments."""
    done = subprocess.run(
        [sys.executable, __file__, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Prints a table with a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--pairs", type=int, nargs="+", default=[10_000, 100_000, 1_000_000]
    )
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="a repetition"
    )
    parser.add_argument("--data", metavar="FOLDER", help="the other corpus")
    parser.add_argument("--source", help="its source language")
    parser.add_argument("--target", help="its target language")
    parser.add_argument("--learn", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--read", help=argparse.SUPPRESS)
    options = parser.parse_args()
    import_tensorflow_quietly()
    if options.learn:
        folder, vocab_size = options.learn
        print(json.dumps(learn(folder, int(vocab_size))))
        return
    if options.read:
        print(json.dumps(read(options.read, options.seconds)))
        return
    known, vocab_size = read_pairs(options)
    print(
        "| pairs | target tokens/s | first batch | peak memory "
        "| of which before any batch | tokenizer learned in | peak memory |"
    )
    print("|---|---|---|---|---|---|---|")
    for pairs in options.pairs:
        with tempfile.TemporaryDirectory() as folder:
            write_corpus(pathlib.Path(folder), known, pairs)
            learned = in_own_process("--learn", folder, str(vocab_size))
            result = in_own_process(
                "--read", folder, "--seconds", str(options.seconds)
            )
        median = statistics.median(result["tokens_per_second"])
        print(
            f"| {pairs:,} | {median:,.0f} | {result['first_batch']:.1f} s "
            f"| {result['mib']:,.0f} MiB | {result['opened_mib']:,.0f} MiB "
            f"| {learned['seconds']:.0f} s | {learned['mib']:,.0f} MiB |",
            flush=True,
        )


if __name__ == "__main__":
    main()
