"""Measures the batches of ids in files: speed, CPU seconds and memory.

python benchmarks/input_pipeline.py --pairs 10000 100000 1000000 10000000

For each size, random ids are written to a temporary folder, as `prepare` does:
texts of 23 tokens on average, 126 at most, with sides of similar length. A new
process reads them in the batches of the preset small. Tokens are those of the
target, without padding. Memory is what the process takes in addition to its
start; the pages of the files, which the system can drop, are included.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

from keras_transformer.support.startup import start_keras

_REPETITIONS = 5
_SHARD_PAIRS = 1_000_000
_VOCAB_SIZE, _MAX_LENGTH = 8_000, 128


def peak_kib() -> int:
    """Returns the peak memory of this process.

    The value of `resource` includes the peak of the parent process.
    """
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+)", status)[1])


def write_ids(folder: pathlib.Path, pairs: int) -> None:
    """Writes the shards of a corpus."""
    from keras_transformer.train.data.encoding import TokenShard
    from keras_transformer.train.data.prepared import write_shards

    random = np.random.default_rng(0)
    for number, first in enumerate(range(0, pairs, _SHARD_PAIRS)):
        count = min(_SHARD_PAIRS, pairs - first)
        mean = random.normal(3.0, 0.6, (count, 1))
        sizes = np.exp(random.normal(mean, 0.15, (count, 2))).ravel()
        sizes = np.clip(sizes.round(), 1, _MAX_LENGTH - 2).astype(np.int32)
        offsets = np.append(0, np.cumsum(sizes)).astype(np.int32)
        ids = random.integers(4, _VOCAB_SIZE, offsets[-1], np.uint16)
        write_shards(folder, [TokenShard(ids, offsets)], number)


def read_batches(folder: pathlib.Path, seconds: float) -> dict[str, float]:
    """Reads batches for some seconds, repeatedly; returns medians."""
    from keras_transformer import Tokenizer
    from keras_transformer.train.data.batching import Batches
    from keras_transformer.train.data.encoding import TokenShard

    tokenizer = Tokenizer.train(["a dog"], vocab_size=270)  # its special ids
    shards = [
        TokenShard(
            np.load(ids, mmap_mode="r"),
            np.load(ids.with_name(f"{ids.name[:11]}.offsets.npy"), "r"),
        )
        for ids in sorted(folder.glob("*.ids.npy"))
    ]
    before = peak_kib()
    start = time.perf_counter()
    batches = iter(
        Batches(
            shards,
            tokenizer,
            batch_tokens=4_096,
            max_length=_MAX_LENGTH,
            seed=1,
        )
    )
    next(batches)
    first_batch = time.perf_counter() - start
    speeds = []
    for _ in range(_REPETITIONS):
        tokens = 0
        start, cpu = time.perf_counter(), time.process_time()
        while time.perf_counter() - start < seconds:
            _, labels = next(batches)
            tokens += np.count_nonzero(labels)
        cpu = time.process_time() - cpu
        speeds.append((tokens / (time.perf_counter() - start), tokens / cpu))
    per_second, per_core_second = np.median(speeds, axis=0).tolist()
    return {
        "per_second": per_second,
        "per_core_second": per_core_second,
        "first_batch": first_batch,
        "mib": (peak_kib() - before) / 1024,
    }


def main() -> None:
    """Prints a table with one row per size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sizes = [10_000, 100_000, 1_000_000, 10_000_000]
    parser.add_argument("--pairs", type=int, nargs="+", default=sizes)
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="per repetition"
    )
    parser.add_argument("--read", help=argparse.SUPPRESS)
    options = parser.parse_args()
    start_keras()
    if options.read:
        folder = pathlib.Path(options.read)
        print(json.dumps(read_batches(folder, options.seconds)))
        return
    print(
        "| pairs | target tokens/s | per core-second | first batch | memory |"
    )
    print("|---|---|---|---|---|")
    for pairs in options.pairs:
        with tempfile.TemporaryDirectory() as folder:
            write_ids(pathlib.Path(folder), pairs)
            command = [sys.executable, __file__, "--read", folder]
            command += ["--seconds", str(options.seconds)]
            done = subprocess.check_output(command, text=True)
        result = json.loads(done.splitlines()[-1])
        print(
            f"| {pairs:,} | {result['per_second']:,.0f} "
            f"| {result['per_core_second']:,.0f} "
            f"| {result['first_batch']:.2f} s | {result['mib']:,.0f} MiB |",
            flush=True,
        )


if __name__ == "__main__":
    main()
